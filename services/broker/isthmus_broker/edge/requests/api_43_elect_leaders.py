"""ElectLeaders: preferred replicas lead again, or, since 1, somebody leads whatever is lost."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.partitions import elect_leaders
from isthmus_broker.core.metadata.refusals import leaders_not_elected
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = ControllerOperation(elect_leaders, leaders_not_elected)
handle = answer_by_controller
