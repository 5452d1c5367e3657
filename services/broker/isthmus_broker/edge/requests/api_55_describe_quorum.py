"""DescribeQuorum: how far the voters and observers of the metadata log are, as their leader knows it."""

from isthmus_broker.edge.controller.active_controller import QuorumOperation
from isthmus_broker.edge.controller.quorum_admin import describe_quorum, quorum_not_described
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = QuorumOperation(describe_quorum, quorum_not_described)
handle = answer_by_controller
