"""RemoveRaftVoter: remove a voter from the quorum, even if it is offline (KIP-853)."""

from isthmus_broker.edge.controller.active_controller import QuorumOperation
from isthmus_broker.edge.controller.quorum_admin import remove_voter, voter_not_removed
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = QuorumOperation(remove_voter, voter_not_removed)
handle = serve_by_controller
