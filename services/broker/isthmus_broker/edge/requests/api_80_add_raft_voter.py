"""AddRaftVoter: make a caught-up observer of the quorum a voter (KIP-853)."""

from isthmus_broker.edge.controller.active_controller import QuorumOperation
from isthmus_broker.edge.controller.quorum_admin import add_voter, voter_not_added
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = QuorumOperation(add_voter, voter_not_added)
handle = serve_by_controller
