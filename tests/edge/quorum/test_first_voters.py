"""The first voters: the rules of `isthmus storage format`, and the bootstrap snapshot it writes."""

from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import NodeConfig, resolve_node
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.raft.types import ReplicaKey, SnapshotId, Voter, VoterEndpoint, VoterSet
from isthmus_broker.edge.quorum.raft_records import RaftRecords
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_cli.first_voters import first_voters
from isthmus_model.clocks import WallMs
from isthmus_model.uuid_text import parse_uuid

# Written by `kafka-storage format --standalone` of Apache Kafka 4.3.1 for the directory and the endpoint below.
KAFKA_WROTE: Final = bytes.fromhex(
    "00000000000000000000009a00000000028c9ec360002000000002000001a1ef26c9fd000001a1ef26c9fdffffffffffffffffffffff"
    "ffffff000000032a0000000800000003160000000001a1ef26c9f900001e00000208000000050a000000010000820100000408000000"
    "066e000002000000013aba9c3393604f7daed2726ad240abb0020b434f4e54524f4c4c45520a3132372e302e302e315a350000000001"
    "0000000000000000000000030000003f00000000022a1c3463002000000000000001a1ef26ca06000001a1ef26ca06ffffffffffffff"
    "ffffffffffffff000000011a00000008000000040600000000"
)
HEADER_MS, LAST_MS, FOOTER_MS = 0x1A1EF26C9FD, 0x1A1EF26C9F9, 0x1A1EF26CA06
DIRECTORY: Final = parse_uuid("OrqcM5NgT32u0nJq0kCrsA")
OTHER: Final = "AAAAAAAAAAAAAAAAAAAAZQ"


def test_the_bootstrap_snapshot_is_that_of_kafka(tmp_path: Path) -> None:
    times = iter((HEADER_MS, FOOTER_MS))
    records, files = RaftRecords(lambda: WallMs(next(times))), SnapshotFiles(SYSTEM, tmp_path)
    voters = VoterSet((Voter(ReplicaKey(1, DIRECTORY), (VoterEndpoint("CONTROLLER", "127.0.0.1", 23093),)),))
    header = records.snapshot_header(LAST_MS, voters)
    files.write(SnapshotId(0, 0), header, (), records.snapshot_footer())
    assert (tmp_path / "00000000000000000000-0000000000.checkpoint").read_bytes() == KAFKA_WROTE
    assert files.voters(SnapshotId(0, 0)) == voters


def config(roles: str = "controller", **settings: str) -> NodeConfig:
    texts = {
        "process.roles": roles,
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://here:9092" if roles == "broker" else "CONTROLLER://here:9093",
        "controller.quorum.bootstrap.servers": "here:9093",
    }
    return resolve_node(BrokerLayers({**texts, **{key.replace("_", "."): value for key, value in settings.items()}}))


def chosen(node: NodeConfig, initial: str | None = None, **flags: bool) -> VoterSet | None:
    options: dict[str, Any] = {"standalone": False, "none": False, **flags}
    return first_voters(node, DIRECTORY, initial, **options)


def test_one_voter_or_several_or_none_yet() -> None:
    mine = Voter(ReplicaKey(1, DIRECTORY), (VoterEndpoint("CONTROLLER", "here", 9093),))
    assert chosen(config(), standalone=True) == VoterSet((mine,))
    assert chosen(config(), none=True) is None
    assert chosen(config("broker")) is None
    other = Voter(ReplicaKey(2, UUID(int=101)), (VoterEndpoint("CONTROLLER", "there", 9094),))
    named = chosen(config(), f"2@there:9094:{OTHER},1@here:9093:OrqcM5NgT32u0nJq0kCrsA")
    assert named == VoterSet((mine, other))


@pytest.mark.parametrize(
    ("node", "initial", "flags", "why"),
    [
        (config(), None, {}, "controller.quorum.voters is not set"),
        (config(), None, {"standalone": True, "none": True}, "only one of"),
        (
            config(controller_quorum_voters="1@here:9093"),
            None,
            {"standalone": True},
            "controller.quorum.voters defines",
        ),
        (config("broker"), None, {"standalone": True}, "only a controller"),
        (config(), "1@here:9093", {}, "expected ID@HOST:PORT:DIRECTORY-ID, got '1@here:9093'"),
        (config(), f"1@here:9093:{OTHER},1@here:9094:{OTHER}", {}, "lists node 1 twice"),
    ],
)
def test_refused_choices(node: NodeConfig, initial: str | None, flags: dict[str, bool], why: str) -> None:
    with pytest.raises(ConfigRefused, match=why):
        chosen(node, initial, **flags)
