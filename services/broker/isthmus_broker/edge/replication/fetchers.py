"""How this node's followers get their leaders' records: a few connections to each leading broker, each with one fetch under way.

A fetcher asks for all its partitions in one incremental session and appends what comes as it is. A fetch that waits at the leader is
given up when a partition has come to the fetcher, so that nobody's first fetch waits behind it.
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
    FetchPartition,
    FetchRequest,
    FetchResponse,
    decode_fetch_response,
    encode_fetch_request,
)

from isthmus_broker.core.replica.follower import FIRST_RETRY_MS, AskOffsets, ReplicaFollower, Step, Wanted
from isthmus_broker.edge.replication.fetch_settings import FetchSettings
from isthmus_broker.edge.replication.leader_offsets import leader_offsets
from isthmus_broker.edge.replication.lost_leaders import LostLeaders
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.replication.throttles import Throttles
from isthmus_broker.edge.storage.files import DiskFailure

logger = logging.getLogger(__name__)

INTERRUPT_SECONDS: Final = 0.02
"""How long a waiting fetch may still be answered after a partition has come; meanwhile more may come."""
BACKOFF_DOUBLED_MAX: Final = 16
"""How often the wait between attempts to connect is doubled; replica.fetch.backoff.ms bounds it before that."""
THROTTLED_SECONDS: Final = 0.1
"""How soon a fetcher that is held back looks whether it still is."""

_SESSION_LOST: Final = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)


class Home(NamedTuple):
    """What fetchers know of their node."""

    node_id: int
    broker_epoch: Callable[[], int]
    address_of: Callable[[int], Endpoint | None]
    settings: Callable[[], FetchSettings]
    throttles: Throttles
    disk_failed: Callable[[Partition, DiskFailure], None]
    lost_leaders: LostLeaders
    clock: MonotonicClock


class Fetchers:
    """The fetchers of a node, by leading broker and number."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[Partition, tuple[Fetcher, ReplicaFollower]] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch for this partition from whom it follows now, or no more; what changes besides does not disturb a fetch that waits."""
        fetcher, follower = None, partition.follower
        before = self._of.get(partition)
        if before is not None and before[1] is follower:
            return
        if follower is not None:
            number = (crc32(partition.topic.encode()) + partition.index) % self._home.settings().fetchers
            key = (follower.leader, number)
            fetcher = self._fetchers.get(key)
            if fetcher is None:
                fetcher = self._fetchers[key] = Fetcher(self._home, *key)
            self._of[partition] = (fetcher, follower)
            fetcher.add(partition)
        else:
            self._of.pop(partition, None)
        if before is not None and before[0] is not fetcher:
            before[0].drop(partition)

    def stop(self) -> None:
        """The node stops."""
        for fetcher in self._fetchers.values():
            fetcher.stop()


class Fetcher:
    """One connection to one broker. Without partitions it keeps no task and no connection."""

    def __init__(self, home: Home, leader: int, number: int) -> None:
        self._home = home
        self._leader = leader
        self._number = number
        self._partitions: dict[Key, Partition] = {}
        self._session = FetchSession()
        self._due: dict[Key, None] = {}
        """Partitions that may want something else than at the last fetch; the others want the same again."""
        self._changed: list[Key] = []
        self._wanted: dict[Key, FetchPartition] = {}
        self._asked: dict[Key, tuple[ReplicaFollower, Wanted]] = {}
        self._news = asyncio.Event()
        self._failures = 0  # attempts to connect since the last that worked
        self._task: asyncio.Task[None] | None = None

    def add(self, partition: Partition) -> None:
        """Fetch this too; one that is known follows anew, in another epoch."""
        key = (partition.topic_id.bytes, partition.index)
        self._partitions[key] = partition
        self._due[key] = None
        self._news.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def drop(self, partition: Partition) -> None:
        """Fetch this no more."""
        key = (partition.topic_id.bytes, partition.index)
        if self._partitions.pop(key, None) is not None:
            self._due[key] = None

    def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._partitions:
                try:
                    await self._connect_and_fetch()
                except (ClientError, DecodeError) as error:
                    self._home.lost_leaders.lost(self._leader)
                    if not self._failures:
                        logger.warning("cannot fetch from broker %d: %s", self._leader, error)
                    backoff_ms = min(
                        FIRST_RETRY_MS << min(self._failures, BACKOFF_DOUBLED_MAX), self._home.settings().backoff_ms
                    )
                    self._failures += 1
                    await self._pause(backoff_ms / 1000)
                except Exception:
                    # One partition's fault must not end the copying of all others from that broker, unseen.
                    logger.exception("the fetcher of broker %d fails", self._leader)
                    await self._pause(self._home.settings().backoff_ms / 1000)
        finally:
            self._task = None

    async def _connect_and_fetch(self) -> None:
        """Until the connection is of no more use; the next begins with everything."""
        connection = await self._connect()
        self._failures = 0
        self._home.lost_leaders.reached(self._leader)
        try:
            await self._fetch_on(connection)
        finally:
            connection.close()
            self._session.reset()
            self._due.update(dict.fromkeys(self._partitions))

    async def _connect(self) -> Connection:
        address = self._home.address_of(self._leader)
        if address is None:
            raise ConnectionFailed(f"broker {self._leader} is not there")
        return await Connection.open(address, f"broker-{self._home.node_id}-fetcher-{self._number}")

    async def _pause(self, seconds: float) -> None:
        """Wait, but not when there is something new to fetch."""
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _fetch_on(self, connection: Connection) -> None:
        """Fetch until there is nothing left to fetch, or a partition came while the leader lets us wait."""
        while self._partitions:
            self._news.clear()
            if not self._ask():
                await self._pause(self._idle_seconds())
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
            self._session.answered(response.session_id)
            for topic, answers in response.topics:
                for answer in answers:
                    await self._take(connection, (topic, answer.partition), answer)

    def _ask(self) -> bool:
        """Find out what is wanted of the partitions that may want something else than before; False when nothing is wanted."""
        now = self._home.clock()
        throttles, partition_max = self._home.throttles, self._home.settings().partition_max
        self._changed = list(self._due)
        for key in self._changed:
            self._wanted.pop(key, None)
            partition = self._partitions.get(key)
            if partition is None:
                del self._due[key]
                continue
            follower, log = partition.follower, partition.log
            if follower is None or log is None or throttles.holds_back_fetcher(partition):
                continue
            asked = follower.wanted(log, now)
            if asked is None:
                continue
            offset, epoch, last_epoch, start = asked
            self._wanted[key] = FetchPartition(key[1], offset, partition_max, epoch, last_epoch, start)
            self._asked[key] = (follower, asked)
            if not throttles.is_follower_throttled(partition):
                del self._due[key]
        return bool(self._wanted)

    def _idle_seconds(self) -> float:
        """Until a partition that waits may be asked for again."""
        followers = [self._partitions[key].follower for key in self._due if key in self._partitions]
        resumes = [at for follower in followers if follower is not None and (at := follower.resume_ms()) is not None]
        left = (min(resumes) - self._home.clock()) / 1000 if resumes else THROTTLED_SECONDS
        return max(left, 0) or THROTTLED_SECONDS

    async def _exchange(self, connection: Connection) -> FetchResponse | None:
        """One fetch; None when it was given up for the sake of a partition that has just come."""
        settings = self._home.settings()
        version = connection.versions.choose(ApiKey.FETCH, at_least=TOPIC_ID_SINCE)
        body = encode_fetch_request(version, self._request(settings))
        exchange = asyncio.ensure_future(
            connection.exchange(ApiKey.FETCH, version, (body,), seconds=settings.timeout_seconds)
        )
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((exchange, news), return_when=asyncio.FIRST_COMPLETED)
            if not exchange.done():
                await asyncio.wait((exchange,), timeout=INTERRUPT_SECONDS)
            if not exchange.done():
                return None
            frame, start = exchange.result()
        finally:
            news.cancel()
            exchange.cancel()
        return decode_fetch_response(version, frame, start)

    def _request(self, settings: FetchSettings) -> FetchRequest:
        session_id, epoch, changed, gone = self._session.plan_changes(self._wanted, self._changed, self._changed)
        return FetchRequest(
            settings.wait_ms,
            settings.min_bytes,
            settings.response_max,
            [(topic, [changed[topic, index] for index in indexes]) for topic, indexes in grouped(changed).items()],
            session_id=session_id,
            session_epoch=epoch,
            forgotten=list(grouped(gone).items()),
            replica_id=self._home.node_id,
            replica_epoch=self._home.broker_epoch(),
        )

    async def _take(self, connection: Connection, key: Key, answer: FetchedPartition) -> None:
        """Do what the follower makes of its answer, unless it follows another leader by now."""
        partition, asked = self._partitions.get(key), self._asked.get(key)
        self._due[key] = None
        if partition is None or asked is None or partition.log is None or partition.follower is not asked[0]:
            return
        follower, wanted = asked
        step = follower.answered(wanted, answer, partition.log, self._home.clock())
        if isinstance(step, AskOffsets):
            await self._ask_offsets(connection, partition, follower)
        else:
            self._follow(partition, follower, step, answer.records or ())

    async def _ask_offsets(self, connection: Connection, partition: Partition, follower: ReplicaFollower) -> None:
        """What was asked for is not in the leader's log: find out what is."""
        found = await leader_offsets(connection, self._home.node_id, partition, follower.leader_epoch)
        if partition.follower is not follower or partition.log is None:
            return
        if found is None:
            follower.failed(self._home.clock())
        else:
            self._follow(partition, follower, follower.offsets(*found, partition.log, self._home.clock()), ())

    def _follow(
        self, partition: Partition, follower: ReplicaFollower, step: Step, records: Sequence[memoryview | bytes]
    ) -> None:
        try:
            partition.follow(step, records, self._home.clock())
        except CorruptBatch as damage:
            logger.error("%s-%d: broker %d sent %s", partition.topic, partition.index, self._leader, damage)
            follower.failed(self._home.clock())
        except DiskFailure as failure:
            self._home.disk_failed(partition, failure)
            return
        if records and self._home.throttles.is_follower_throttled(partition):
            self._home.throttles.fetched(sum(map(len, records)))
