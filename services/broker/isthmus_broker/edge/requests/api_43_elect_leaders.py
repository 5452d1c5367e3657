"""ElectLeaders: elect preferred replicas or, since 1, any live replica even if records are lost (an unclean election)."""

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.partitions import elect_leaders
from isthmus_broker.core.metadata.refusals import leaders_not_elected
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(elect_leaders, leaders_not_elected)
handle = serve_by_controller
