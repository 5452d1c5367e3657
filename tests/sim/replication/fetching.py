"""Both ends of a replica's fetch: the fetcher that drives the follower cores, and the leader's side with the product's readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from isthmus_broker.core.replica.fetch_session import Fetching
from isthmus_broker.core.replica.follower import FIRST_RETRY_MS, AskOffsets, ReplicaFollower, Wanted
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.replication.reader import ReadResult, ReadRules
from isthmus_broker.edge.replication.replica_reader import ReplicaReader
from isthmus_broker.edge.replication.waiting import Watched
from isthmus_client.fetch_session import FetchSession, grouped
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse

from tests.sim.replication.endpoint import Answer

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimBroker, SimPartition

WAIT_MS: Final = 150
INTERRUPT_MS: Final = 20
SOON_MS: Final = 5
BACKOFF_MS: Final = 200
R = TypeVar("R")
Key = tuple[Topic, int]


class Waiting(Generic[R]):
    """A request that looks again when there is news; as the product's, in virtual time."""

    def __init__(
        self,
        broker: SimBroker,
        watched: Sequence[Watched],
        wait_ms: int,
        look: Callable[[], R],
        is_enough: Callable[[R], bool],
        answer: Callable[[R], None],
        *,
        appends_too: bool = False,
        deserves_soon: Callable[[R], bool] = lambda _: False,
    ) -> None:
        self._broker = broker
        self._deserves_soon = deserves_soon
        self._is_soon = False
        self._watched = watched
        self._look = look
        self._is_enough = is_enough
        self._answer = answer
        self._is_woken = False
        self._is_over = False
        for one in watched:
            one.watch(self.wake, appends_too=appends_too)
        broker.later(wait_ms, self._give_up)

    def wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._broker.later(0, self._try)

    def _try(self) -> None:
        self._is_woken = False
        if not self._is_over:
            found = self._look()
            if self._is_enough(found):
                self._finish(found)
            elif not self._is_soon and self._deserves_soon(found):
                self._is_soon = True
                self._broker.later(SOON_MS, self._give_up)

    def _give_up(self) -> None:
        if not self._is_over:
            self._finish(self._look())

    def _finish(self, found: R) -> None:
        self.cancel()
        self._answer(found)

    def cancel(self) -> None:
        """Wait no more."""
        self._is_over = True
        for one in self._watched:
            one.unwatch(self.wake)


class Fetcher:
    """One connection of a broker to one leader, with one fetch under way."""

    def __init__(self, broker: SimBroker, leader: int) -> None:
        self._broker = broker
        self._leader = leader
        self._partitions: dict[Key, SimPartition] = {}
        self._session = FetchSession()
        self._due: dict[Key, None] = {}
        self._changed: list[Key] = []
        self._wanted: dict[Key, FetchPartition] = {}
        self._asked: dict[Key, tuple[ReplicaFollower, Wanted]] = {}
        self._fetch = 0
        """The number of the fetch under way; answers of others belong to connections that were closed."""
        self._is_fetching = False
        self._is_waiting = False
        self._asks_offsets = 0

    def add(self, partition: SimPartition) -> None:
        key = (partition.topic_id.bytes, partition.index)
        self._partitions[key] = partition
        self._due[key] = None
        if self._is_fetching:
            self._broker.later(INTERRUPT_MS, partial(self._give_up, self._fetch))
        else:
            self._next()

    def drop(self, partition: SimPartition) -> None:
        key = (partition.topic_id.bytes, partition.index)
        if self._partitions.pop(key, None) is not None:
            self._due[key] = None

    def _give_up(self, fetch: int) -> None:
        """Nobody's first fetch waits behind another."""
        if self._is_fetching and fetch == self._fetch:
            self._broken(0)

    def _broken(self, delay: int) -> None:
        """The connection is of no more use; the next begins with everything."""
        self._fetch += 1
        self._is_fetching = False
        self._session.reset()
        self._due.update(dict.fromkeys(self._partitions))
        self._again(delay)

    def _again(self, delay: int) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._broker.later(delay, self._after_waiting)

    def _after_waiting(self) -> None:
        self._is_waiting = False
        self._next()

    def _next(self) -> None:
        if self._is_fetching or self._asks_offsets or not self._partitions:
            return
        leader = self._broker.reachable(self._leader)
        if leader is None:
            self._again(FIRST_RETRY_MS)
            return
        if not self._find_wanted():
            self._again(FIRST_RETRY_MS)
            return
        self._is_fetching = True
        self._fetch += 1
        request = self._request()
        self._broker.ask(
            leader, lambda reply: leader.serve_fetch(request, reply), partial(self._answered, self._fetch), 2 * WAIT_MS
        )

    def _find_wanted(self) -> bool:
        now = self._broker.clock()
        self._changed = list(self._due)
        for key in self._changed:
            self._wanted.pop(key, None)
            partition = self._partitions.get(key)
            if partition is None:
                del self._due[key]
                continue
            follower, log = partition.follower, partition.log
            if follower is None or log is None:
                continue
            asked = follower.wanted(log, now)
            if asked is None:
                continue
            offset, epoch, last_epoch, start = asked
            most = self._broker.fetch_bytes
            self._wanted[key] = FetchPartition(key[1], offset, most, epoch, last_epoch, start)
            self._asked[key] = (follower, asked)
            del self._due[key]
        return bool(self._wanted)

    def _request(self) -> FetchRequest:
        session_id, epoch, changed, gone = self._session.plan_changes(self._wanted, self._changed, self._changed)
        return FetchRequest(
            WAIT_MS,
            1,
            10 * self._broker.fetch_bytes,
            [(topic, [changed[topic, index] for index in indexes]) for topic, indexes in grouped(changed).items()],
            session_id=session_id,
            session_epoch=epoch,
            forgotten=list(grouped(gone).items()),
            replica_id=self._broker.id,
            replica_epoch=self._broker.epoch,
        )

    def _answered(self, fetch: int, response: FetchResponse | None) -> None:
        if fetch != self._fetch:
            return
        if response is None:
            self._broken(FIRST_RETRY_MS)
            return
        self._is_fetching = False
        if response.error_code:
            self._session.reset()
        else:
            self._session.answered(response.session_id)
            for topic, answers in response.topics:
                for answer in answers:
                    self._take((topic, answer.partition), answer)
        self._next()

    def _take(self, key: Key, answer: FetchedPartition) -> None:
        partition, asked = self._partitions.get(key), self._asked.get(key)
        self._due[key] = None
        if partition is None or asked is None or partition.log is None or partition.follower is not asked[0]:
            return
        follower, wanted = asked
        now = self._broker.clock()
        step = follower.answered(wanted, answer, partition.log, now)
        if isinstance(step, AskOffsets):
            self._ask_offsets(partition, follower)
        else:
            partition.follow(step, answer.records or (), now)

    def _ask_offsets(self, partition: SimPartition, follower: ReplicaFollower) -> None:
        """What was asked for is not in the leader's log: find out what is. Nothing is fetched meanwhile."""
        self._asks_offsets += 1

        def answered(found: tuple[int, int] | None) -> None:
            self._asks_offsets -= 1
            now = self._broker.clock()
            if partition.follower is follower and partition.log is not None:
                if found is None:
                    follower.failed(now)
                else:
                    partition.follow(follower.offsets(*found, partition.log, now), (), now)
            self._next()

        leader = self._broker.brokers[self._leader]
        epoch, topic = follower.leader_epoch, partition.topic
        self._broker.ask(leader, lambda reply: leader.serve_offsets(topic, epoch, reply), answered)


class Serving:
    """A fetch of a replica at its leader."""

    def __init__(self, broker: SimBroker, request: FetchRequest, fetching: Fetching, reply: Answer) -> None:
        self._broker = broker
        self._request = request
        self._fetching = fetching
        self._reply = reply
        rules = ReadRules(request.max_bytes, False, request.replica_id)
        self._reader = ReplicaReader(rules, request.replica_epoch, broker.throttles, fetching.is_incremental)
        self._followed = broker.followers.of(request.replica_id, None, fetching.session)

    def serve(self) -> None:
        request, now = self._request, self._broker.clock()
        if self._followed is not None:
            forgotten = [(topic, index) for topic, indexes in request.forgotten for index in indexes]
            self._followed.begins(request.topics, forgotten, now)
        result = self._read(now)
        if not self._fetching.wanted or self._is_enough(result):
            self._answer(result)
            return
        broker = self._broker
        waiting = Waiting(
            broker, self._watched(), WAIT_MS, self._read, self._is_enough, self._answer,
            appends_too=True, deserves_soon=lambda found: bool(found.news),
        )  # fmt: skip
        broker.followers.waits(request.replica_id, None, waiting.cancel)
        if result.news:
            waiting.wake()

    def _watched(self) -> list[Watched]:
        if self._followed is not None:
            return [self._followed]
        found = (self._broker.find(topic, part.partition) for topic, part in self._fetching.wanted)
        return [partition for partition in found if isinstance(partition, Partition)]

    def _read(self, fetched_ms: MonotonicMs | None = None) -> ReadResult:
        wanted = self._fetching.wanted if self._followed is None else self._followed.wanted()
        return self._reader.read(wanted, self._broker.find, fetched_ms, self._followed)

    def _is_enough(self, result: ReadResult) -> bool:
        return result.is_urgent or result.size >= 1

    def _answer(self, result: ReadResult) -> None:
        """Records are read when they are sent, which may be a while after what to send was decided."""
        broker = self._broker
        self._reader.told(result)
        session_id, topics = broker.sessions.finish(self._fetching, result.answers, broker.clock())
        self._reader.told(result)
        if broker.world.chance(0.2):
            broker.later(broker.world.random.randrange(30), partial(self._send, session_id, topics))
        else:
            self._send(session_id, topics)

    def _send(self, session_id: int, topics: Any) -> None:
        sent = [(topic, [_with_records(answer) for answer in answers]) for topic, answers in topics]
        self._reply(FetchResponse(sent, 0, session_id))


def _with_records(answer: FetchedPartition) -> FetchedPartition:
    if not answer.records:
        return answer
    return answer._replace(records=[chunk.take(len(chunk)) for chunk in answer.records])
