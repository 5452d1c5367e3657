"""Incremental fetch sessions (KIP-227): a reader of many partitions names only what changed, and is told only what changed.

A session is opened by a full fetch with epoch 0 and carried on by epochs 1, 2, ... Every incremental fetch merges its partitions into
the session, drops the forgotten ones, and answers only partitions that have news. The cache is bounded: when it is full, a new session
takes the place of one that was silent for `EVICTION_MS`, or is not opened, and the client goes on with full fetches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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
Answers = list[tuple[Topic, list[FetchedPartition]]]


@dataclass(slots=True)
class _Followed:
    """A partition of a session, and what its reader knows already."""

    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    is_known: bool = False

    def tell(self, answer: FetchedPartition) -> FetchedPartition:
        """The answer as this session tells it: a topic that it has known is gone, its id is not unknown."""
        if answer.error_code != ErrorCode.unknown_topic_id.value:
            self.is_known = True
        elif self.is_known:
            return answer._replace(error_code=ErrorCode.unknown_topic_or_partition.value)
        return answer

    def told(self, answer: FetchedPartition) -> None:
        """A watermark counts as told only if the reader takes it: not with an error, nor where it has to cut its log first."""
        is_taken = not answer.error_code and answer.diverging_epoch is None
        self.high_watermark = answer.high_watermark if is_taken else -1
        self.log_start_offset = answer.log_start_offset

    def has_news(self, answer: FetchedPartition) -> bool:
        return (
            bool(answer.records)
            or answer.error_code != 0
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.preferred_read_replica >= 0
            or answer.diverging_epoch is not None
        )


@dataclass(slots=True)
class Session:
    """One reader's partitions, in the order in which they are served."""

    session_id: int
    by_id: bool
    epoch: int
    used_ms: int
    partitions: dict[Key, _Followed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fetching:
    """What one fetch asks for, whether it came in full or as a difference."""

    wanted: Sequence[tuple[Topic, FetchPartition]]
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

    def begin(self, request: FetchRequest, *, by_id: bool, now_ms: int) -> Fetching | ErrorCode:
        """What to read for this request, or why the session cannot go on."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            named = {(topic, part.partition): part for topic, parts in request.topics for part in parts}  # each once
            wanted = [(topic, part) for (topic, _), part in named.items()]
            return Fetching(wanted, opens_session=request.session_epoch == INITIAL_EPOCH, by_id=by_id)
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
            return Fetching([], by_id=by_id)
        session.epoch = 1 if session.epoch == _ID_MAX else session.epoch + 1
        wanted = [(key[0], followed.wanted) for key, followed in session.partitions.items()]
        return Fetching(wanted, session, is_incremental=True, by_id=by_id)

    def _merge(self, session: Session, request: FetchRequest) -> None:
        for topic, partitions in request.topics:
            for wanted in partitions:
                followed = session.partitions.get((topic, wanted.partition))
                if followed is None:
                    session.partitions[topic, wanted.partition] = _Followed(wanted)
                else:
                    if wanted.current_leader_epoch != followed.wanted.current_leader_epoch:
                        followed.high_watermark = -1  # what it was told in another epoch came too late for it to take
                    followed.wanted = wanted
        for topic, indexes in request.forgotten:
            for index in indexes:
                session.partitions.pop((topic, index), None)

    def _touch(self, session: Session, now_ms: int) -> None:
        session.used_ms = now_ms
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session

    def finish(
        self, fetching: Fetching, answers: Sequence[tuple[Topic, FetchedPartition]], now_ms: int
    ) -> tuple[int, Answers]:
        """The session id to tell and the partitions to answer."""
        session = fetching.session
        if session is None:
            opened = self._open(fetching, answers, now_ms) if fetching.opens_session else NO_SESSION
            return opened, _by_topic(sorted(answers, key=_rank))
        news = []
        for topic, answer in answers:
            key = (topic, answer.partition)
            followed = session.partitions.get(key)
            if followed is None:
                continue
            told = followed.tell(answer)
            if not followed.has_news(told):
                continue
            news.append((topic, told))
            followed.told(answer)
            if answer.records:  # whoever got data goes to the end of the line
                del session.partitions[key]
                session.partitions[key] = followed
        return session.session_id, _by_topic(sorted(news, key=_rank))

    def _open(self, fetching: Fetching, answers: Sequence[tuple[Topic, FetchedPartition]], now_ms: int) -> int:
        if not fetching.wanted or not self._make_room(now_ms):
            return NO_SESSION
        session_id = self._new_id()
        session = Session(session_id, fetching.by_id, INITIAL_EPOCH + 1, now_ms)
        told = {(topic, answer.partition): answer for topic, answer in answers}
        for topic, wanted in fetching.wanted:
            followed = session.partitions[topic, wanted.partition] = _Followed(wanted)
            answer = told.get((topic, wanted.partition))
            if answer is not None:
                followed.told(answer)
                followed.tell(answer)
        self._sessions[session_id] = session
        return session_id

    def _make_room(self, now_ms: int) -> bool:
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


def _rank(told: tuple[Topic, FetchedPartition]) -> int:
    """Kafka answers what it read first, then unknown ids, then partitions that nobody has."""
    return _LAST.get(told[1].error_code, 0)


def _by_topic(answers: Sequence[tuple[Topic, FetchedPartition]]) -> Answers:
    """Neighbours of the same topic share an entry."""
    topics: Answers = []
    for topic, answer in answers:
        if topics and topics[-1][0] == topic:
            topics[-1][1].append(answer)
        else:
            topics.append((topic, [answer]))
    return topics
