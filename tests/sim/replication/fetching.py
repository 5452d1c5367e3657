"""Both sides of a replica's fetch, with the product's decisions: the fetcher, which drives the follower cores, and the leader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from isthmus_broker.core.replica.consumer_reader import ReadResult, ReadRules
from isthmus_broker.core.replica.fetch_plan import FetchPlan
from isthmus_broker.core.replica.fetch_session import SessionFetch
from isthmus_broker.core.replica.follower import FIRST_RETRY_MS, ReplicaFollower, ResolveOffsets
from isthmus_broker.core.replica.replica_reader import ReplicaReader
from isthmus_broker.core.replica.waiting import Waiting, Watched
from isthmus_broker.edge.replication.log_reads import read_log
from isthmus_broker.edge.replication.partition import Partition
from isthmus_client.fetch_session import FetchSession, grouped
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchRequest, FetchResponse

from tests.sim.replication.endpoint import Endpoint, Reply

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimBroker, SimPartition

WAIT_MS: Final = 150
INTERRUPT_MS: Final = 20
BACKOFF_MS: Final = 200
Key = tuple[Topic, int]


class _Call:
    """A call that is scheduled in virtual time."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self._when = when
        self._callback: Callable[[], None] | None = callback

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        if self._callback is not None:
            self._callback()


class SimTimers:
    """The event loop of a simulated process, in seconds of the world's time."""

    def __init__(self, process: Endpoint) -> None:
        self._process = process

    def time(self) -> float:
        return self._process.world.now / 1000

    def call_soon(self, callback: Callable[[], None], /) -> _Call:
        return self.call_at(self.time(), callback)

    def call_at(self, when: float, callback: Callable[[], None], /) -> _Call:
        call = _Call(when, callback)
        self._process.later(max(round((when - self.time()) * 1000), 0), call.run)
        return call


class Fetcher:
    """One connection of a broker to one leader, with one fetch under way."""

    def __init__(self, broker: SimBroker, leader: int) -> None:
        self._broker = broker
        self._leader = leader
        self._plan: FetchPlan[SimPartition] = FetchPlan(broker.throttles)
        self._session = FetchSession()
        self._fetch = 0
        """The number of the fetch under way; responses to others belong to connections that were closed."""
        self._is_fetching = False
        self._is_waiting = False
        self._lookups = 0

    def add(self, partition: SimPartition) -> None:
        self._plan.add(partition)
        if self._is_fetching:
            self._broker.later(INTERRUPT_MS, partial(self._give_up, self._fetch))
        else:
            self._next()

    def drop(self, partition: SimPartition) -> None:
        self._plan.drop(partition)

    def _give_up(self, fetch: int) -> None:
        """Cancel a waiting fetch, so that an added partition is fetched at once."""
        if self._is_fetching and fetch == self._fetch:
            self._broken(0)

    def _broken(self, delay: int) -> None:
        """Close the connection; the next one starts with a fetch of every partition."""
        self._fetch += 1
        self._is_fetching = False
        self._session.reset()
        self._plan.restart()
        self._again(delay)

    def _again(self, delay: int) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._broker.later(delay, self._after_waiting)

    def _after_waiting(self) -> None:
        self._is_waiting = False
        self._next()

    def _next(self) -> None:
        if self._is_fetching or self._lookups or not self._plan.partitions:
            return
        leader = self._broker.reachable(self._leader)
        if leader is None:
            self._again(self._plan.failed(BACKOFF_MS))
            return
        self._plan.succeeded()
        if not self._plan.update(self._broker.clock(), self._broker.fetch_bytes):
            self._again(self._plan.idle_ms(self._broker.clock()))
            return
        self._is_fetching = True
        self._fetch += 1
        request = self._request()
        self._broker.send_request(
            leader,
            lambda reply: leader.serve_fetch(request, reply),
            partial(self._handle_response, self._fetch),
            2 * WAIT_MS,
        )

    def _request(self) -> FetchRequest:
        plan = self._plan
        session_id, epoch, changed, forgotten = self._session.plan_changes(plan.fetches, plan.changed, plan.changed)
        return FetchRequest(
            WAIT_MS,
            1,
            10 * self._broker.fetch_bytes,
            [(topic, [changed[topic, index] for index in indexes]) for topic, indexes in grouped(changed).items()],
            session_id=session_id,
            session_epoch=epoch,
            forgotten=list(grouped(forgotten).items()),
            replica_id=self._broker.id,
            replica_epoch=self._broker.epoch,
        )

    def _handle_response(self, fetch: int, response: FetchResponse | None) -> None:
        if fetch != self._fetch:
            return
        if response is None:
            self._broken(FIRST_RETRY_MS)
            return
        self._is_fetching = False
        if response.error_code:
            self._session.reset()
        else:
            self._session.confirm(response.session_id)
            for topic, partitions in response.topics:
                for fetched in partitions:
                    self._handle((topic, fetched.partition), fetched)
        self._next()

    def _handle(self, key: Key, fetched: FetchedPartition) -> None:
        now = self._broker.clock()
        decision = self._plan.handle(key, fetched, now)
        if decision is None:
            return
        if isinstance(decision.step, ResolveOffsets):
            self._look_up_offsets(decision.replica, decision.follower)
        else:
            decision.replica.change_log(decision.step, fetched.records or (), now)

    def _look_up_offsets(self, partition: SimPartition, follower: ReplicaFollower) -> None:
        """Look up the leader's log start and log end: the fetch offset is not in its log. Nothing is fetched meanwhile."""
        self._lookups += 1

        def responded(offsets: tuple[int, int] | None) -> None:
            self._lookups -= 1
            now = self._broker.clock()
            if partition.follower is follower and partition.log is not None:
                if offsets is None:
                    follower.back_off(now)
                else:
                    partition.change_log(follower.handle_offsets(*offsets, partition.log, now), (), now)
            self._next()

        leader = self._broker.brokers[self._leader]
        epoch, topic = follower.leader_epoch, partition.topic
        self._broker.send_request(leader, lambda reply: leader.serve_offsets(topic, epoch, reply), responded)


class Serving:
    """A fetch of a replica at its leader."""

    def __init__(self, broker: SimBroker, request: FetchRequest, fetch: SessionFetch, reply: Reply) -> None:
        self._broker = broker
        self._request = request
        self._fetch = fetch
        self._reply = reply
        rules = ReadRules(request.max_bytes, False, request.replica_id)
        self._reader = ReplicaReader(rules, request.replica_epoch, broker.throttles, read_log, fetch.is_incremental)
        self._session = broker.followers.session_of(request.replica_id, None, fetch.session)

    def serve(self) -> None:
        request = self._request
        if self._session is not None:
            forgotten = [(topic, index) for topic, indexes in request.forgotten for index in indexes]
            self._session.begin_fetch(request.topics, forgotten, self._broker.clock())
        result = self._read(is_new=True)
        if not self._fetch.partitions or self._is_enough(result):
            self._respond(result)
            return
        broker = self._broker
        waiting = Waiting(
            SimTimers(broker), self._watched(), WAIT_MS, self._read, self._is_enough, self._respond,
            appends_too=True, deserves_soon=lambda result: bool(result.behind),
        )  # fmt: skip
        broker.followers.wait(request.replica_id, None, waiting.cancel)
        if result.behind:
            waiting.wake()

    def _watched(self) -> list[Watched]:
        if self._session is not None:
            return [self._session]
        partitions = (self._broker.find(topic, part.partition) for topic, part in self._fetch.partitions)
        return [partition for partition in partitions if isinstance(partition, Partition)]

    def _read(self, *, is_new: bool = False) -> ReadResult:
        partitions = self._fetch.partitions if self._session is None else self._session.marked()
        return self._reader.read(partitions, self._broker.find, self._broker.clock(), self._session, is_new=is_new)

    def _is_enough(self, result: ReadResult) -> bool:
        return result.is_urgent or result.size >= 1

    def _respond(self, result: ReadResult) -> None:
        """Send the response. Records are read when they are sent, which may be some time after the decision."""
        broker = self._broker
        session_id, topics = broker.sessions.finish(self._fetch, result.responses, broker.clock())
        self._reader.record_watermarks_sent(result)
        if broker.world.chance(0.2):
            broker.later(broker.world.random.randrange(30), partial(self._send, session_id, topics))
        else:
            self._send(session_id, topics)

    def _send(self, session_id: int, topics: Any) -> None:
        sent = [(topic, [_with_records(fetched) for fetched in partitions]) for topic, partitions in topics]
        self._reply(FetchResponse(sent, 0, session_id))


def _with_records(fetched: FetchedPartition) -> FetchedPartition:
    if not fetched.records:
        return fetched
    return fetched._replace(records=[chunk.take(len(chunk)) for chunk in fetched.records])
