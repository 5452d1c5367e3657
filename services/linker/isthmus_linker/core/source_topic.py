"""Whether the source's topic is still the one that is mirrored: what is wrong for long enough ends the mirror, growth is followed."""

from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.extensions.mirrors import MirrorError

from isthmus_linker.core.partition import Failure

_FINE: Final = -1


class SourceTopic(NamedTuple):
    """A topic as the source describes it; brokers before 2.8 know no ids."""

    topic_id: UUID | None
    partitions: int


class Verdict(NamedTuple):
    """What to do about a mirror topic: end it, or give it this many partitions."""

    failure: Failure | None = None
    grow_to: int | None = None


@dataclass(slots=True)
class SourceWatch:
    """Of one mirror topic; `seen` after every look at the source."""

    _wrong_since_ms: int = _FINE

    def seen(
        self, found: SourceTopic | None, mirrored: SourceTopic, now_ms: MonotonicMs, retry_timeout_ms: int
    ) -> Verdict:
        """`found` is what the source has under the name now, `mirrored` what the destination knows of it."""
        failure = _wrong(found, mirrored)
        if failure is None:
            self._wrong_since_ms = _FINE
            grown = found is not None and found.partitions > mirrored.partitions
            return Verdict(grow_to=found.partitions if found is not None and grown else None)
        if self._wrong_since_ms == _FINE:
            self._wrong_since_ms = now_ms
        return Verdict(failure if now_ms - self._wrong_since_ms >= retry_timeout_ms else None)


def _wrong(found: SourceTopic | None, mirrored: SourceTopic) -> Failure | None:
    if found is None:
        return Failure(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED, "the source does not know the topic")
    if None not in (found.topic_id, mirrored.topic_id) and found.topic_id != mirrored.topic_id:
        message = f"the source's topic has the id {found.topic_id}, and {mirrored.topic_id} is mirrored"
        return Failure(MirrorError.SOURCE_TOPIC_ID_CHANGED, message)
    if found.partitions < mirrored.partitions:
        message = f"the source's topic has {found.partitions} partitions, and the mirror {mirrored.partitions}"
        return Failure(MirrorError.SOURCE_PARTITIONS_DECREASED, message)
    return None
