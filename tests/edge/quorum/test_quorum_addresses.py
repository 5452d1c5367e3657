"""The endpoints of the quorum's nodes."""

from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node
from isthmus_broker.core.raft.types import ReplicaKey, Voter, VoterEndpoint, VoterSet
from isthmus_broker.edge.quorum.quorum_addresses import QuorumAddresses
from isthmus_model.endpoints import Endpoint

SETTINGS = {
    "process.roles": "broker",
    "node.id": "3",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9000",
    "controller.quorum.voters": "1@relay:9001",
}


def addresses(voter: Voter) -> QuorumAddresses:
    return QuorumAddresses(resolve_node(BrokerLayers(SETTINGS)), lambda: VoterSet((voter,)))


def test_a_voter_of_the_settings_is_where_they_say_whatever_it_says_itself() -> None:
    found = addresses(Voter(ReplicaKey(1, None), (VoterEndpoint("CONTROLLER", "relay", 9001),)))
    found.learn(1, "elsewhere", 9101)
    assert found.find(1) == Endpoint("relay", 9001)
    found.learn(2, "elsewhere", 9102)
    assert found.find(2) == Endpoint("elsewhere", 9102)
    assert found.find(4) is None


def test_a_voter_of_the_log_is_where_it_says_itself() -> None:
    found = addresses(Voter(ReplicaKey(1, UUID(int=7)), (VoterEndpoint("CONTROLLER", "before", 9001),)))
    assert found.find(1) == Endpoint("before", 9001)
    found.learn(1, "moved", 9101)
    assert found.find(1) == Endpoint("moved", 9101)
