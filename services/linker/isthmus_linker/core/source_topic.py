"""Check that the source topic is still the mirrored one: a lasting mismatch fails the mirror topic; added partitions are followed."""

from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.extensions.mirrors import MirrorError

from isthmus_linker.core.partition import Failure

_FINE: Final = -1


class SourceTopic(NamedTuple):
    """A topic as the source describes it; brokers before 2.8 have no ids."""

    topic_id: UUID | None
    partitions: int


class Verdict(NamedTuple):
    """What to do about a mirror topic: fail it, or increase its partitions."""

    failure: Failure | None = None
    grow_to: int | None = None


@dataclass(slots=True)
class SourceWatch:
    """The checks of one mirror topic."""

    _wrong_since_ms: int = _FINE

    def check(
        self, current: SourceTopic | None, mirrored: SourceTopic, now_ms: MonotonicMs, retry_timeout_ms: int
    ) -> Verdict:
        """Compare the source's current topic of this name with the one that the destination mirrors."""
        failure = _wrong(current, mirrored)
        if failure is None:
            self._wrong_since_ms = _FINE
            grown = current is not None and current.partitions > mirrored.partitions
            return Verdict(grow_to=current.partitions if current is not None and grown else None)
        if self._wrong_since_ms == _FINE:
            self._wrong_since_ms = now_ms
        return Verdict(failure if now_ms - self._wrong_since_ms >= retry_timeout_ms else None)


def _wrong(current: SourceTopic | None, mirrored: SourceTopic) -> Failure | None:
    if current is None:
        return Failure(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED, "the source no longer has the topic")
    if None not in (current.topic_id, mirrored.topic_id) and current.topic_id != mirrored.topic_id:
        message = f"the source's topic has the id {current.topic_id}, but {mirrored.topic_id} is mirrored"
        return Failure(MirrorError.SOURCE_TOPIC_ID_CHANGED, message)
    if current.partitions < mirrored.partitions:
        message = (
            f"the source's topic has {current.partitions} partitions, but the mirror topic has {mirrored.partitions}"
        )
        return Failure(MirrorError.SOURCE_PARTITIONS_DECREASED, message)
    return None
