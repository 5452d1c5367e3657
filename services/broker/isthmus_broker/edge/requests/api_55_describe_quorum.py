"""DescribeQuorum: offsets and lag of the voters and observers of the metadata log, as tracked by its leader."""

from isthmus_broker.edge.controller.active_controller import QuorumOperation
from isthmus_broker.edge.controller.quorum_admin import describe_quorum, quorum_not_described
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = QuorumOperation(describe_quorum, quorum_not_described)
handle = serve_by_controller
