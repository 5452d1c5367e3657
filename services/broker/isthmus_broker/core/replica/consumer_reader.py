"""Reads the partitions of a consumer's fetch: up to which offset, and whether the response can wait."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition

from isthmus_broker.core.replica.fetch_position import NO_REPLICA, check_position, response
from isthmus_broker.core.replica.replica import NO_EPOCH, Replica
from isthmus_broker.core.replica.waiting import Watched

READ_COMMITTED: Final = 1
DEBUGGING: Final = -2
CONSUMERS: Final = (NO_REPLICA, DEBUGGING)
"""Replica ids of readers that are not replicas: consumers, and Kafka's debugging tools."""

_WITH_LEADER: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
Responses = list[tuple[Topic, FetchedPartition]]
Find = Callable[[Topic, int], Any]
"""The replica of a partition, or the error code for one that is not here."""


class ReadLog(Protocol):
    """Reads a replica's log from the fetch's offset, which is in the log, up to `upper`: at most `room` bytes, or one whole batch.

    A read that cannot complete now is pending: the fetch watches it, and reads again when woken.
    """

    def __call__(
        self, replica: Any, part: FetchPartition, upper: int, room: int, *, at_least_one: bool, read_committed: bool
    ) -> FetchedPartition | Watched: ...


class ReadRules(NamedTuple):
    """Limits and options of one fetch."""

    max_bytes: int
    read_committed: bool
    replica_id: int
    names_leader: bool = False
    leader_only: bool = True
    prefer: Callable[[Replica[Any], int], int | None] = lambda _partition, _offset: None
    """A replica nearer to the consumer that has the offset; used only where this node is the leader."""
    find_leader: Callable[[Topic, int], tuple[int, int] | None] = lambda _topic, _index: None
    """The leader of a partition that has no replica here, and its epoch."""

    @property
    def is_consumer(self) -> bool:
        """Whether the reader is not a replica."""
        return self.replica_id in CONSUMERS


class ReadResult(NamedTuple):
    """The data available for a fetch now."""

    responses: Responses
    size: int
    is_urgent: bool
    """The response must be sent now, however few bytes it has."""
    behind: Sequence[Replica[Any]] = ()
    """Partitions whose current high watermark the replica has not been sent: worth a response, but not an immediate one for each."""
    pending: Sequence[Watched] = ()
    """Reads that are not complete yet."""


def read_partitions(
    partitions: Sequence[tuple[Topic, FetchPartition]], rules: ReadRules, find: Find, read: ReadLog
) -> ReadResult:
    """Read in order until the response is full; the first batch comes whole, whatever its size."""
    responses: Responses = []
    pending: list[Watched] = []
    total = 0
    is_urgent = False
    for topic, part in partitions:
        replica = find(topic, part.partition)
        if isinstance(replica, ErrorCode):
            fetched: FetchedPartition | Watched = absent(topic, part, replica, rules)
        else:
            fetched = _read(replica, part, rules, rules.max_bytes - total, read, at_least_one=total == 0)
        if not isinstance(fetched, FetchedPartition):
            pending.append(fetched)
            fetched = response(replica.log, part)
        is_urgent = (
            is_urgent
            or fetched.error_code != 0
            or fetched.diverging_epoch is not None
            or fetched.preferred_read_replica >= 0
        )
        total += sum(map(len, fetched.records or ()))
        responses.append((topic, fetched))
    return ReadResult(responses, total, is_urgent, pending=pending)


def _read(
    replica: Replica[Any], part: FetchPartition, rules: ReadRules, room: int, read: ReadLog, *, at_least_one: bool
) -> FetchedPartition | Watched:
    error = replica.refuses(max(part.current_leader_epoch, NO_EPOCH), leader_only=rules.leader_only)
    log = replica.log
    if error is None and min(rules.max_bytes, part.max_bytes) < 0:
        error = ErrorCode.unknown_server_error
    if error is not None or log is None:
        return refused(replica, part, error or ErrorCode.kafka_storage_error, names_leader=rules.names_leader)
    preferred = rules.prefer(replica, part.fetch_offset) if replica.is_led_here else None
    if preferred is not None:
        return response(log, part, preferred=preferred)
    unreadable = check_position(log, part)
    if unreadable is not None:
        return unreadable
    upper = log.last_stable_offset if rules.read_committed else log.high_watermark
    return read(replica, part, upper, room, at_least_one=at_least_one, read_committed=rules.read_committed)


def absent(topic: Topic, part: FetchPartition, error: ErrorCode, rules: ReadRules) -> FetchedPartition:
    """The error response for a partition without a replica here, with its leader if the client can use it."""
    if error is not ErrorCode.not_leader_or_follower:
        return FetchedPartition(part.partition, error.value, aborted=())
    leader = rules.find_leader(topic, part.partition) if rules.names_leader else None
    return FetchedPartition(part.partition, error.value, current_leader=leader)


def refused(replica: Replica[Any], part: FetchPartition, error: ErrorCode, *, names_leader: bool) -> FetchedPartition:
    """An error response, with the current leader if the client can use it."""
    leader = replica.current_leader if error in _WITH_LEADER and names_leader else None
    return FetchedPartition(part.partition, error.value, current_leader=leader)
