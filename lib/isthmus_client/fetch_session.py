"""An incremental fetch session with one broker (KIP-227): only what changed since the last request is said again. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchPartition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0  # asks for a full answer and a new session
_EPOCH_MAX: Final = 0x7FFFFFFF

Key = tuple[Topic, int]


class Plan(NamedTuple):
    """What to send now."""

    session_id: int
    epoch: int
    partitions: Mapping[Key, FetchPartition]
    forgotten: list[Key]


class FetchSession:
    """Call `plan` before a request and then `answered` or `reset`."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._told: dict[Key, FetchPartition] = {}

    def plan(self, wanted: Mapping[Key, FetchPartition]) -> Plan:
        """The request for these partitions; it is taken as sent."""
        return self.plan_changes(wanted, wanted, [key for key in self._told if key not in wanted])

    def plan_changes(self, wanted: Mapping[Key, FetchPartition], changed: Iterable[Key], gone: Iterable[Key]) -> Plan:
        """As `plan`, for who knows which partitions may have changed or gone since the last request: the rest is not looked at."""
        if self._epoch == FIRST_EPOCH:
            self._told = dict(wanted)
            return Plan(NO_SESSION, FIRST_EPOCH, dict(wanted), [])
        told = self._told
        news = {key: wanted[key] for key in changed if key in wanted and told.get(key) != wanted[key]}
        forgotten = [key for key in gone if key in told and key not in wanted]
        told.update(news)
        for key in forgotten:
            del told[key]
        return Plan(self._id, self._epoch, news, forgotten)

    def confirm(self, session_id: int) -> None:
        """The broker answered without an error; id 0 means that it keeps no session for us."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._epoch = 1 if session_id != self._id or self._epoch == _EPOCH_MAX else self._epoch + 1
        self._id = session_id

    def reset(self) -> None:
        """The next request says everything, and asks for a new session."""
        self._id, self._epoch, self._told = NO_SESSION, FIRST_EPOCH, {}


def grouped(keys: Iterable[Key]) -> dict[Topic, list[int]]:
    """Partition indexes by topic, in the order given."""
    topics: dict[Topic, list[int]] = {}
    for topic, index in keys:
        topics.setdefault(topic, []).append(index)
    return topics
