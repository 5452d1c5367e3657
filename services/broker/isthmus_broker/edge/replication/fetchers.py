"""The connections on which this node's followers fetch: a few to each leading broker, each with one fetch under way.

A fetcher fetches all its partitions in one incremental session and appends the records unchanged; `core/replica/fetch_plan.py` decides what
it fetches and when it retries. A fetch that waits at the leader is cancelled when a partition is added to the fetcher, so that the new
partition is fetched at once.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from zlib import crc32

from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, ConnectionFailed, Refused
from isthmus_client.fetch_session import FetchSession, Key, grouped
from isthmus_model.clocks import MonotonicClock
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import CorruptBatch, DecodeError, ErrorCode, error_code
from isthmus_wire.fetch import (
    TOPIC_ID_SINCE,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    decode_fetch_response,
    encode_fetch_request,
)

from isthmus_broker.core.replica.fetch_plan import FetchPlan
from isthmus_broker.core.replica.follower import ReplicaFollower, ResolveOffsets, Step
from isthmus_broker.core.replica.throttles import Throttles
from isthmus_broker.edge.background import background
from isthmus_broker.edge.replication.delayed_requests import DelayedRequests
from isthmus_broker.edge.replication.fetch_settings import FetchSettings
from isthmus_broker.edge.replication.leader_offsets import leader_offsets
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure

logger = logging.getLogger(__name__)

INTERRUPT_SECONDS: Final = 0.02
"""The time for which a waiting fetch may still get its response after a partition was added; more may be added meanwhile."""

_SESSION_LOST: Final = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)


class FetcherContext(NamedTuple):
    """The parts of the node that fetchers use."""

    node_id: int
    broker_epoch: Callable[[], int]
    address_of: Callable[[int], Endpoint | None]
    settings: Callable[[], FetchSettings]
    throttles: Throttles
    disk_failed: Callable[[Partition, DiskFailure], None]
    delayed_requests: DelayedRequests
    clock: MonotonicClock


class Fetchers:
    """The fetchers of a node, by leading broker and number."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[Partition, tuple[Fetcher, ReplicaFollower]] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch this partition from its current leader, or stop; other changes do not interrupt a waiting fetch."""
        fetcher, follower = None, partition.follower
        before = self._of.get(partition)
        if before is not None and before[1] is follower:
            return
        if follower is not None:
            number = (crc32(partition.topic.encode()) + partition.index) % self._context.settings().fetchers
            key = (follower.leader, number)
            fetcher = self._fetchers.get(key)
            if fetcher is None:
                fetcher = self._fetchers[key] = Fetcher(self._context, *key)
            self._of[partition] = (fetcher, follower)
            fetcher.add(partition)
        else:
            self._of.pop(partition, None)
        if before is not None and before[0] is not fetcher:
            before[0].drop(partition)

    def stop(self) -> None:
        """Close every connection."""
        for fetcher in self._fetchers.values():
            fetcher.stop()


class Fetcher:
    """One connection to one broker. Without partitions it keeps no task and no connection."""

    def __init__(self, context: FetcherContext, leader: int, number: int) -> None:
        self._context = context
        self._leader = leader
        self._number = number
        self._plan: FetchPlan[Partition] = FetchPlan(context.throttles)
        self._session = FetchSession()
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, partition: Partition) -> None:
        """Fetch this partition too; one that was added before now follows in another epoch."""
        self._plan.add(partition)
        self._added.set()
        if self._task is None:
            self._task = background(self._run())

    def drop(self, partition: Partition) -> None:
        """Stop fetching this partition."""
        self._plan.drop(partition)

    def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._plan.partitions:
                try:
                    await self._connect_and_fetch()
                except (ClientError, DecodeError) as error:
                    self._context.delayed_requests.leader_lost(self._leader)
                    if not self._plan.failures:
                        logger.warning("cannot fetch from broker %d: %s", self._leader, error)
                    await self._pause(self._plan.failed(self._context.settings().backoff_ms))
                except Exception:
                    # A defect in the handling of one partition must not end the replication of all others from that broker.
                    logger.exception("fetcher of broker %d failed; retrying", self._leader)
                    await self._pause(self._context.settings().backoff_ms)
        finally:
            self._task = None

    async def _connect_and_fetch(self) -> None:
        """Open a connection and fetch until it ends; the next one starts with a fetch of every partition."""
        connection = await self._connect()
        self._plan.succeeded()
        self._context.delayed_requests.leader_reached(self._leader)
        try:
            await self._fetch_on(connection)
        finally:
            connection.close()
            self._session.reset()
            self._plan.restart()

    async def _connect(self) -> Connection:
        address = self._context.address_of(self._leader)
        if address is None:
            raise ConnectionFailed(f"broker {self._leader} is not registered, or fenced")
        return await Connection.open(address, f"broker-{self._context.node_id}-fetcher-{self._number}")

    async def _pause(self, wait_ms: int) -> None:
        """Wait at most until a partition is added."""
        self._added.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                await self._added.wait()

    async def _fetch_on(self, connection: Connection) -> None:
        """Fetch until there are no partitions, or until one is added while a fetch waits at the leader."""
        while self._plan.partitions:
            self._added.clear()
            if not self._plan.update(self._context.clock(), self._context.settings().partition_max):
                await self._pause(self._plan.idle_ms(self._context.clock()))
                continue
            response = await self._exchange(connection)
            if response is None:
                return
            error = error_code(response.error_code)
            if error is not ErrorCode.none:
                self._session.reset()
                if error not in _SESSION_LOST:
                    raise Refused(error, f"fetch from broker {self._leader}")
                continue
            self._session.confirm(response.session_id)
            for topic, partitions in response.topics:
                for fetched in partitions:
                    await self._handle(connection, (topic, fetched.partition), fetched)

    async def _exchange(self, connection: Connection) -> FetchResponse | None:
        """Exchange one fetch; None if it was cancelled because a partition was added."""
        settings = self._context.settings()
        version = connection.versions.choose(ApiKey.FETCH, at_least=TOPIC_ID_SINCE)
        body = encode_fetch_request(version, self._request(settings))
        exchange = asyncio.ensure_future(
            connection.exchange(ApiKey.FETCH, version, (body,), seconds=settings.timeout_seconds)
        )
        added = asyncio.ensure_future(self._added.wait())
        try:
            await asyncio.wait((exchange, added), return_when=asyncio.FIRST_COMPLETED)
            if not exchange.done():
                await asyncio.wait((exchange,), timeout=INTERRUPT_SECONDS)
            if not exchange.done():
                return None
            frame, start = exchange.result()
        finally:
            added.cancel()
            exchange.cancel()
        return decode_fetch_response(version, frame, start)

    def _request(self, settings: FetchSettings) -> FetchRequest:
        plan = self._plan
        session_id, epoch, changed, forgotten = self._session.plan_changes(plan.fetches, plan.changed, plan.changed)
        return FetchRequest(
            settings.wait_ms,
            settings.min_bytes,
            settings.response_max,
            [(topic, [changed[topic, index] for index in indexes]) for topic, indexes in grouped(changed).items()],
            session_id=session_id,
            session_epoch=epoch,
            forgotten=list(grouped(forgotten).items()),
            replica_id=self._context.node_id,
            replica_epoch=self._context.broker_epoch(),
        )

    async def _handle(self, connection: Connection, key: Key, fetched: FetchedPartition) -> None:
        """Carry out the decision of the partition's follower."""
        decision = self._plan.handle(key, fetched, self._context.clock())
        if decision is None:
            return
        partition, follower, step = decision
        if isinstance(step, ResolveOffsets):
            await self._look_up_offsets(connection, partition, follower)
        else:
            self._change_log(partition, follower, step, fetched.records or ())

    async def _look_up_offsets(self, connection: Connection, partition: Partition, follower: ReplicaFollower) -> None:
        """Look up the leader's log start and log end: the fetch offset is not in its log."""
        offsets = await leader_offsets(connection, self._context.node_id, partition, follower.leader_epoch)
        if partition.follower is not follower or partition.log is None:
            return
        if offsets is None:
            follower.back_off(self._context.clock())
        else:
            self._change_log(
                partition, follower, follower.handle_offsets(*offsets, partition.log, self._context.clock()), ()
            )

    def _change_log(
        self, partition: Partition, follower: ReplicaFollower, step: Step, records: Sequence[memoryview | bytes]
    ) -> None:
        try:
            partition.change_log(step, records, self._context.clock())
        except CorruptBatch as damage:
            logger.error("%s-%d: broker %d sent %s", partition.topic, partition.index, self._leader, damage)
            follower.back_off(self._context.clock())
        except DiskFailure as failure:
            self._context.disk_failed(partition, failure)
            return
        if records and self._context.throttles.is_follower_throttled(partition):
            self._context.throttles.record_fetched(sum(map(len, records)), self._context.clock())
