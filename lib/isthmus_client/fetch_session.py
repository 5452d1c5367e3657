"""An incremental fetch session with one broker (KIP-227): requests carry only what changed since the last one. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchPartition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0  # requests a full fetch and a new session
_EPOCH_MAX: Final = 0x7FFFFFFF

Key = tuple[Topic, int]


class Plan(NamedTuple):
    """The next request."""

    session_id: int
    epoch: int
    partitions: Mapping[Key, FetchPartition]
    forgotten: list[Key]


class FetchSession:
    """The client's side of a session. Call `plan` before a request, then `confirm` or `reset`."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._sent: dict[Key, FetchPartition] = {}

    def plan(self, partitions: Mapping[Key, FetchPartition]) -> Plan:
        """The request for these partitions, which is then considered sent."""
        return self.plan_changes(partitions, partitions, [key for key in self._sent if key not in partitions])

    def plan_changes(
        self, partitions: Mapping[Key, FetchPartition], changed: Iterable[Key], gone: Iterable[Key]
    ) -> Plan:
        """As `plan`, but compares only the partitions that the caller reports as possibly changed or gone."""
        if self._epoch == FIRST_EPOCH:
            self._sent = dict(partitions)
            return Plan(NO_SESSION, FIRST_EPOCH, dict(partitions), [])
        sent = self._sent
        news = {key: partitions[key] for key in changed if key in partitions and sent.get(key) != partitions[key]}
        forgotten = [key for key in gone if key in sent and key not in partitions]
        sent.update(news)
        for key in forgotten:
            del sent[key]
        return Plan(self._id, self._epoch, news, forgotten)

    def confirm(self, session_id: int) -> None:
        """Record a successful response; id 0 means that the broker keeps no session."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._epoch = 1 if session_id != self._id or self._epoch == _EPOCH_MAX else self._epoch + 1
        self._id = session_id

    def reset(self) -> None:
        """Make the next request a full one that requests a new session."""
        self._id, self._epoch, self._sent = NO_SESSION, FIRST_EPOCH, {}


def grouped(keys: Iterable[Key]) -> dict[Topic, list[int]]:
    """Partition indexes by topic, in the order given."""
    topics: dict[Topic, list[int]] = {}
    for topic, index in keys:
        topics.setdefault(topic, []).append(index)
    return topics
