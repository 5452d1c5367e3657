"""Incremental fetch sessions (KIP-227): a reader of many partitions names only what changed, and gets only what changed.

A full fetch with epoch 0 opens a session, and epochs 1, 2, ... continue it. Every incremental fetch merges its partitions into the session,
drops the forgotten ones, and gets a response only for partitions that have changed. The cache is bounded: when it is full, a new session
evicts one that was unused for `EVICTION_MS`; if there is none, no session is opened and the client continues with full fetches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition, FetchRequest

from isthmus_broker.core.contract import RandomSource

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_SESSION: Final = 0
EVICTION_MS: Final = 120_000
_LAST: Final[Mapping[int, int]] = {ErrorCode.unknown_topic_id.value: 1, ErrorCode.unknown_topic_or_partition.value: 2}
_ID_MAX: Final = 2**31 - 1

Key = tuple[Topic, int]
Responses = list[tuple[Topic, list[FetchedPartition]]]


@dataclass(slots=True)
class _SessionPartition:
    """A partition of a session, with what its reader has received."""

    request: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    has_existed: bool = False

    def translate(self, fetched: FetchedPartition) -> FetchedPartition:
        """The response within this session: the error for a deleted topic is UNKNOWN_TOPIC_OR_PARTITION, not UNKNOWN_TOPIC_ID."""
        if fetched.error_code != ErrorCode.unknown_topic_id.value:
            self.has_existed = True
        elif self.has_existed:
            return fetched._replace(error_code=ErrorCode.unknown_topic_or_partition.value)
        return fetched

    def record_sent(self, fetched: FetchedPartition) -> None:
        """Record a response. The reader ignores its watermark if there is an error, or if it must truncate its log first."""
        is_applied = not fetched.error_code and fetched.diverging_epoch is None
        self.high_watermark = fetched.high_watermark if is_applied else -1
        self.log_start_offset = fetched.log_start_offset

    def has_changed(self, fetched: FetchedPartition) -> bool:
        return (
            bool(fetched.records)
            or fetched.error_code != 0
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
            or fetched.preferred_read_replica >= 0
            or fetched.diverging_epoch is not None
        )


@dataclass(slots=True)
class Session:
    """One reader's partitions, in the order in which they are served."""

    session_id: int
    by_id: bool
    epoch: int
    used_ms: int
    partitions: dict[Key, _SessionPartition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionFetch:
    """The partitions that one fetch reads; an incremental fetch names only the changes."""

    partitions: Sequence[tuple[Topic, FetchPartition]]
    session: Session | None = None
    is_incremental: bool = False
    opens_session: bool = False
    by_id: bool = False


class FetchSessions:
    """The sessions of one node."""

    def __init__(self, slots: int, random: RandomSource) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, Session] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, by_id: bool, now_ms: MonotonicMs) -> SessionFetch | ErrorCode:
        """The partitions to read for this request, or the error if the session cannot continue."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            named = {(topic, part.partition): part for topic, parts in request.topics for part in parts}  # each once
            full = [(topic, part) for (topic, _), part in named.items()]
            return SessionFetch(full, opens_session=request.session_epoch == INITIAL_EPOCH, by_id=by_id)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.by_id != by_id:
            return ErrorCode.fetch_session_topic_id_error
        self._merge(session, request)
        self._touch(session, now_ms)
        if not session.partitions:
            del self._sessions[session.session_id]
            return SessionFetch([], by_id=by_id)
        session.epoch = 1 if session.epoch == _ID_MAX else session.epoch + 1
        partitions = [(key[0], partition.request) for key, partition in session.partitions.items()]
        return SessionFetch(partitions, session, is_incremental=True, by_id=by_id)

    def _merge(self, session: Session, request: FetchRequest) -> None:
        for topic, parts in request.topics:
            for part in parts:
                partition = session.partitions.get((topic, part.partition))
                if partition is None:
                    session.partitions[topic, part.partition] = _SessionPartition(part)
                else:
                    if part.current_leader_epoch != partition.request.current_leader_epoch:
                        partition.high_watermark = -1  # the reader ignored watermarks of another epoch
                    partition.request = part
        for topic, indexes in request.forgotten:
            for index in indexes:
                session.partitions.pop((topic, index), None)

    def _touch(self, session: Session, now_ms: MonotonicMs) -> None:
        session.used_ms = now_ms
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session

    def finish(
        self, fetch: SessionFetch, responses: Sequence[tuple[Topic, FetchedPartition]], now_ms: MonotonicMs
    ) -> tuple[int, Responses]:
        """The session id of the response and the partitions in it."""
        session = fetch.session
        if session is None:
            opened = self._open(fetch, responses, now_ms) if fetch.opens_session else NO_SESSION
            return opened, _by_topic(sorted(responses, key=_rank))
        changed = []
        for topic, fetched in responses:
            key = (topic, fetched.partition)
            partition = session.partitions.get(key)
            if partition is None:
                continue
            translated = partition.translate(fetched)
            if not partition.has_changed(translated):
                continue
            changed.append((topic, translated))
            partition.record_sent(fetched)
            if (
                fetched.records
            ):  # partitions that returned data move to the end, so that the others are read first next time
                del session.partitions[key]
                session.partitions[key] = partition
        return session.session_id, _by_topic(sorted(changed, key=_rank))

    def _open(
        self, fetch: SessionFetch, responses: Sequence[tuple[Topic, FetchedPartition]], now_ms: MonotonicMs
    ) -> int:
        if not fetch.partitions or not self._make_room(now_ms):
            return NO_SESSION
        session_id = self._new_id()
        session = Session(session_id, fetch.by_id, INITIAL_EPOCH + 1, now_ms)
        sent = {(topic, fetched.partition): fetched for topic, fetched in responses}
        for topic, part in fetch.partitions:
            partition = session.partitions[topic, part.partition] = _SessionPartition(part)
            fetched = sent.get((topic, part.partition))
            if fetched is not None:
                partition.record_sent(fetched)
                partition.translate(fetched)
        self._sessions[session_id] = session
        return session_id

    def _make_room(self, now_ms: MonotonicMs) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms <= EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._random.randrange(_ID_MAX)
            if session_id not in self._sessions:
                return session_id


def _rank(response: tuple[Topic, FetchedPartition]) -> int:
    """Kafka lists what it read first, then unknown topic ids, then unknown partitions."""
    return _LAST.get(response[1].error_code, 0)


def _by_topic(responses: Sequence[tuple[Topic, FetchedPartition]]) -> Responses:
    """Neighbours of the same topic share an entry."""
    topics: Responses = []
    for topic, fetched in responses:
        if topics and topics[-1][0] == topic:
            topics[-1][1].append(fetched)
        else:
            topics.append((topic, [fetched]))
    return topics
