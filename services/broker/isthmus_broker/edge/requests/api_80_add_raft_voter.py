"""AddRaftVoter: an observer that has caught up becomes a voter (KIP-853)."""

from isthmus_broker.edge.controller.active_controller import QuorumOperation
from isthmus_broker.edge.controller.quorum_admin import add_voter, voter_not_added
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = QuorumOperation(add_voter, voter_not_added)
handle = answer_by_controller
