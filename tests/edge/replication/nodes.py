"""Partitions of two nodes connected in memory: the leader's reader serves the follower's fetches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import NodeConfig, resolve_node, with_embedded_defaults
from isthmus_broker.core.replica.consumer_reader import ReadRules
from isthmus_broker.core.replica.follower import ResolveOffsets, Step
from isthmus_broker.core.replica.leader import IsrProposal
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_broker.core.replica.replica_reader import ReplicaReader
from isthmus_broker.core.replica.throttles import Throttles
from isthmus_broker.edge.replication.log_reads import LogReader
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.fetch import FetchedPartition, FetchPartition
from isthmus_wire.records import NewRecord, build_batch

from tests.clocks import at
from tests.edge.storage.logs import NOW, new_log


class Reported:
    """Records the events of a partition."""

    def __init__(self) -> None:
        self.propose: Callable[[Partition, IsrProposal], None] = lambda _partition, _proposal: None
        self.truncations: list[int] = []

    def isr_proposed(self, partition: Partition, proposal: IsrProposal) -> None:
        self.propose(partition, proposal)

    def truncated(self, _partition: Partition, end_offset: int) -> None:
        self.truncations.append(end_offset)


def _no_failure(_partition: Partition, failure: DiskFailure) -> None:
    raise failure


READ_LOG = LogReader(_no_failure)
EPOCHS = {1: 11, 2: 12, 3: 13}
"""The active brokers and their epochs."""
RULES = ReadRules(10_000_000, read_committed=False, replica_id=2)


def node_config(**settings: str) -> NodeConfig:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return resolve_node(BrokerLayers(with_embedded_defaults(names, "unused")))


def leadership(leader: int, epoch: int, isr: tuple[int, ...] = (1, 2), **fields: Any) -> Leadership:
    return Leadership(leader, epoch, fields.pop("replicas", (1, 2)), isr, **fields)


def partition(directory: Path, node_id: int, reported: Reported | None = None, **config: Any) -> Partition:
    log = new_log(directory / str(node_id), **config)
    return Partition(node_id, "t", 0, UUID(int=1), log, EPOCHS.get, reported or Reported())


def become(part: Partition, state: Leadership, *, min_isr: int = 1, now_ms: int = NOW) -> None:
    part.take_leadership(state, IsrRules(10_000, min_isr), 1_000, at(now_ms))


def batch(*values: bytes, **fields: Any) -> memoryview:
    return memoryview(bytearray(build_batch([NewRecord(b"k", value, NOW) for value in values], **fields)))


def produce(part: Partition, *values: bytes) -> None:
    assert part.produce(batch(*values), 12, 1, at(NOW)).error_code == 0


def stored(part: Partition) -> bytes:
    assert part.log is not None
    return part.log.read(part.log.log_start_offset, 10_000_000, part.log.end_offset, at_least_one=True).records()


def offsets(part: Partition) -> tuple[int, int, int]:
    """Log start, high watermark and log end."""
    assert part.log is not None
    return part.log.log_start_offset, part.log.high_watermark, part.log.end_offset


def fetch(leader: Partition, follower: Partition, now_ms: int = NOW) -> Step:
    """Exchange one fetch and apply the response to the follower."""
    role, log = follower.follower, follower.log
    assert role is not None
    assert log is not None
    request = role.next_fetch(log, MonotonicMs(now_ms))
    assert request is not None
    response = fetch_from(leader, FetchPartition(0, request.offset, 1_000_000, *request[1:]), now_ms)
    records = [chunk.take(len(chunk)) for chunk in response.records or ()]
    step = role.handle_response(request, response, log, MonotonicMs(now_ms))
    if isinstance(step, ResolveOffsets):
        assert leader.log is not None
        step = role.handle_offsets(leader.log.log_start_offset, leader.log.end_offset, log, MonotonicMs(now_ms))
    follower.change_log(step, records, MonotonicMs(now_ms))
    return step


def fetch_as_one(leader: Partition, follower: Partition) -> object:
    """Fetch as node 1, which the reader takes for node 2; the leader must have that replica."""
    assert leader.leader is not None
    leader.leader.progress[2] = leader.leader.progress[1]
    return fetch(leader, follower)


def fetch_from(
    leader: Partition, request: FetchPartition, now_ms: int = NOW, throttles: Throttles | None = None
) -> FetchedPartition:
    """The leader's response to a fetch of node 2."""
    reader = ReplicaReader(RULES, EPOCHS[2], throttles or Throttles(node_config()), READ_LOG, is_incremental=False)
    result = reader.read([("t", request)], lambda _topic, _index: leader, MonotonicMs(now_ms), is_new=True)
    reader.record_watermarks_sent(result)
    ((_, fetched),) = result.responses
    return fetched
