"""When to retry, after what backoff, and what to refresh before. Pure: the clock and the randomness are arguments."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from isthmus_wire.errors import ErrorCode

from isthmus_client.errors import ConnectionFailed, Refused
from isthmus_client.limits import BACKOFF_FIRST_SECONDS, BACKOFF_JITTER, BACKOFF_MAX_SECONDS


class Stale(Enum):
    """What a failure shows to be stale."""

    NOTHING = auto()
    METADATA = auto()
    COORDINATOR = auto()


_COORDINATOR_MOVED: Final = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
COORDINATOR_TROUBLE: Final = _COORDINATOR_MOVED | {ErrorCode.coordinator_load_in_progress, ErrorCode.request_timed_out}
"""In responses with an error code per partition, these concern the coordinator and so every partition."""
_METADATA_OUT_OF_DATE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_controller,
        ErrorCode.listener_not_found,
    }
)


class Randomness(Protocol):
    def uniform(self, a: float, b: float, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff, bounded, with jitter so that clients do not retry in step."""

    first: float = BACKOFF_FIRST_SECONDS
    most: float = BACKOFF_MAX_SECONDS
    jitter: float = BACKOFF_JITTER

    def delay(self, failures: int, random: Randomness) -> float:
        """Seconds to wait after that many consecutive failures."""
        exact = min(self.first * 2.0 ** min(failures - 1, 30), self.most)
        return exact * random.uniform(1 - self.jitter, 1 + self.jitter)


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    if isinstance(error, Refused):
        return error.code.retriable
    return isinstance(error, ConnectionFailed)


def stale_after(error: BaseException) -> Stale:
    """What to refresh before the next attempt."""
    if isinstance(error, Refused):
        if error.code in _COORDINATOR_MOVED:
            return Stale.COORDINATOR
        return Stale.METADATA if error.code in _METADATA_OUT_OF_DATE else Stale.NOTHING
    return Stale.METADATA if isinstance(error, ConnectionFailed) else Stale.NOTHING
