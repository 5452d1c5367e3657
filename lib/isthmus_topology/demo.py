"""The story that `isthmus demo` tells on the built-in platform: written in one region, read near by in another, a region lost, and in the
end the whole cluster, which a linked cluster takes over from, readers going on where they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from isthmus_client import requests_by_broker as scatter
from isthmus_client.admin import group_offsets, topics
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.admin.mirrors import alter_mirrors, create_mirror, describe_mirrors, refusal
from isthmus_client.admin.replicas import replica_status
from isthmus_client.append_mirrored import progress
from isthmus_client.batch_io import FetchLimits
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.consumer import Consumer
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.extensions.mirrors import MirrorAction, MirrorState, PartitionProgress

from isthmus_topology.reading import TopologyRefused
from isthmus_topology.wan.control import ask
from isthmus_topology.wiring import ControlPlane

if TYPE_CHECKING:
    from isthmus_topology.processes import Site

SOURCE: Final = "atlantic"
COPY: Final = "reports"
LINK: Final = "from-atlantic"
HOME, NEIGHBOUR, AWAY = "eu-west", "eu-north", "us-east"
TOPIC: Final = "demo"
GROUP: Final = "demo-readers"
PARTITIONS: Final = 3
RECORDS: Final = 2_000
READ: Final = 1_200
LATER: Final = 100
_VALUE: Final = bytes(1_000)
_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.1

Tell = Callable[[str, str], None]
"""A heading, and what came of it; an empty heading goes on with the one before."""


async def tell_story(site: Site, tell: Tell) -> None:
    """Raises TopologyRefused when the site is not the platform, ClientError when it cannot be told to its end."""
    names = {cluster.name for cluster in site.topology.clusters}
    if not {SOURCE, COPY} <= names or LINK not in {link.name for link in site.topology.services.cluster_links}:
        raise TopologyRefused("the demo tells its story on the built-in platform: start that with `isthmus up`")
    story = _Story(site, tell)
    try:
        await story.write_and_read_near_by()
        await story.lose_a_region()
        await story.fail_over()
        await story.look_at_the_lag()
    finally:
        await story.put_everything_back()


class _Story:
    def __init__(self, site: Site, tell: Tell) -> None:
        self._site = site
        self._tell = tell
        self._began_ms = wall_ms()
        self._written = 0

    async def write_and_read_near_by(self) -> None:
        tell = self._tell
        orders = next(
            t for c in self._site.topology.clusters if c.name == SOURCE for t in c.topics if t.name == "orders"
        )
        async with self._client(SOURCE, HOME) as client:
            await topics.delete(client, [TOPIC])
            await _until("the topic of an earlier demo is gone", lambda: _is_missing(client))
            refused = (await topics.create(client, [topics.NewTopic(TOPIC, PARTITIONS, configs=orders.config)]))[TOPIC]
            if refused is not None:
                raise refused
            tell(
                f"A topic over three regions, and its mirror in cluster {COPY}",
                f"`{TOPIC}` has two sync replicas in {HOME}, one in {NEIGHBOUR}, an observer in {AWAY}; link {LINK} copies it.",
            )
            async with self._client(COPY, AWAY) as copy:
                await self._remove_copy(copy)
                await create_mirror(copy, LINK, TOPIC)
            took = await self._write(client, RECORDS)
            await _until("the observers have everything", lambda: _are_even(client))
        async with self._client(COPY, AWAY) as copy:
            await _until("the link has copied everything", lambda: self._is_copied(copy))
        tell(f"Write {RECORDS} records in {HOME}", f"acknowledged by all in-sync replicas in {took:.2f} s")
        for rack, how in (
            ("", "from the leaders, over the ocean"),
            (f"{AWAY}/a", f"with client.rack={AWAY}/a, from the observer"),
        ):
            before = self._into(AWAY)
            async with self._client(SOURCE, AWAY) as client:
                count = await _read(client, rack)
            carried = (self._into(AWAY) - before) / 1_000_000
            tell(
                f"Read them in {AWAY}" if not rack else "", f"{count} records {how}: {carried:.1f} MB came into {AWAY}"
            )

    async def lose_a_region(self) -> None:
        tell = self._tell
        async with self._client(SOURCE, HOME) as client:
            read = await _read_as_group(client, READ)
            tell(f"Group {GROUP} reads", f"{read} of {RECORDS} records, and commits")
            committed = await group_offsets.fetch(client, GROUP)
        async with self._client(COPY, AWAY) as copy:
            await _until("the link has brought the group's offsets", lambda: _has_offsets(copy, committed))
        tell("", f"the link has brought its offsets to {COPY}")
        self._cut(HOME, NEIGHBOUR)
        self._cut(HOME, AWAY)
        began = monotonic_ms()
        async with self._client(SOURCE, NEIGHBOUR) as client:
            await _until(f"nothing is led in {HOME}", lambda: self._is_led_elsewhere(client))
            await self._write(client, LATER)
            took = (monotonic_ms() - began) / 1000
            view = (await topics.describe(client, [TOPIC]))[TOPIC]
            leaders = sorted({self._region(partition.leader) for partition in view.partitions.values()})
            in_sync = sorted({self._region(broker) for p in view.partitions.values() for broker in p.in_sync})
        tell(
            f"Cut {HOME} off from everybody",
            f"{LATER} records, written in {NEIGHBOUR}, are acknowledged {took:.1f} s after the cut: led in {', '.join(leaders)}, "
            f"in sync in {', '.join(in_sync)}; the observer stands in",
        )

    async def fail_over(self) -> None:
        tell = self._tell
        async with self._client(COPY, AWAY) as copy:
            await _until("the link has copied everything", lambda: self._is_copied(copy))
            self._cut(NEIGHBOUR, AWAY)
            began = monotonic_ms()
            why = refusal((await alter_mirrors(copy, MirrorAction.FAILOVER, [TOPIC]))[TOPIC])
            if why is not None:
                raise why
            await self._write(copy, LATER)
            took = (monotonic_ms() - began) / 1000
            tell(
                "Cut Europe off altogether, and fail over",
                f"`isthmus link mirror failover {TOPIC}`: written in {COPY} after {took:.2f} s; nothing of Europe was asked",
            )
            read = await _read_as_group(copy, self._written - READ)
            left = await _left_over(copy)
        tell(
            "", f"{GROUP} goes on there from its committed offsets: {read} records, after which {left} are left to read"
        )

    async def look_at_the_lag(self) -> None:
        """Of every copy of the topic, once the samples that were written behind the cuts have come."""
        ask(self._site.control, {"op": "heal"})
        self._tell("Heal all cuts, and look at the lag", "every copy tells how far it was behind, every two seconds")
        async with asyncio.timeout(_SECONDS):
            series = self._lag()
            while not any(each["kind"] != "link" and (_worst(each)["lag_ms"] or 0) > 0 for each in series):
                await asyncio.sleep(_PAUSE_SECONDS)
                series = self._lag()
        for each in series:
            worst, name = _worst(each), f"{each['kind']} {each['link']}".strip()
            behind = f"at worst {worst['lag_records']} records, {worst['lag_ms'] / 1000:.1f} s behind"
            self._tell("", f"{name} from {each['source_region'] or '?'} to {each['target_region'] or '?'}: {behind}")
        self._tell("", "`isthmus lag report` makes a page of it")

    def _lag(self) -> list[dict[str, Any]]:
        path = f"/api/v1/lag?by=regions&topic={TOPIC}&since_ms={self._began_ms}"
        series: list[dict[str, Any]] = ControlPlane(self._site).ask("GET", path)["series"]
        return series

    async def put_everything_back(self) -> None:
        """However far the story came."""
        ask(self._site.control, {"op": "heal"})
        async with self._client(COPY, AWAY) as copy:
            await self._remove_copy(copy)
        async with self._client(SOURCE, HOME) as client:
            await topics.delete(client, [TOPIC])
        self._tell("Everything is put back", "all cuts are healed, the demo's topics are gone")

    # -- what the chapters use -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _client(self, cluster: str, region: str) -> AsyncIterator[Client]:
        bootstrap = parse_bootstrap(self._site.plan.bootstrap(cluster, region))
        async with Client(bootstrap, client_id="isthmus-demo", operation_seconds=_SECONDS) as client:
            yield client

    async def _write(self, client: Client, count: int) -> float:
        began = monotonic_ms()
        async with Producer(client) as producer:
            sent = [
                await producer.send(TOPIC, _VALUE, partition=number % PARTITIONS)
                for number in range(self._written, self._written + count)
            ]
            for delivery in sent:
                await delivery.place()
        self._written += count
        return (monotonic_ms() - began) / 1000

    async def _is_copied(self, copy: Client) -> bool:
        told = await progress(copy, _partitions())
        ends = [each.log_end_offset if isinstance(each, PartitionProgress) else 0 for each in told.values()]
        return sum(ends) == self._written

    async def _is_led_elsewhere(self, client: Client) -> bool:
        partitions = (await topics.describe(client, [TOPIC]))[TOPIC].partitions.values()
        return all(partition.leader >= 0 and self._region(partition.leader) != HOME for partition in partitions)

    async def _remove_copy(self, copy: Client) -> None:
        for mirror in await describe_mirrors(copy, link=LINK):
            if mirror.topic == TOPIC and mirror.state != MirrorState.STOPPED:
                await alter_mirrors(copy, MirrorAction.FAILOVER, [TOPIC])
        await topics.delete(copy, [TOPIC])
        await _until(f"the copy in {COPY} is gone", lambda: _is_missing(copy))

    def _cut(self, near: str, far: str) -> None:
        ask(self._site.control, {"op": "cut", "from": near, "to": far, "one_way": False, "reset": False})

    def _into(self, region: str) -> int:
        return sum(way["carried"] for way in ask(self._site.control, {"op": "state"}) if way["to"] == region)

    def _region(self, broker: int) -> str:
        return next((n.region for n in self._site.plan.nodes if n.cluster == SOURCE and n.node_id == broker), "nowhere")


def _worst(series: dict[str, Any]) -> dict[str, int]:
    """The point with the highest lag."""
    nothing = {"lag_ms": 0, "lag_records": 0}
    return max(series["points"], key=lambda point: (point["lag_ms"] or 0, point["lag_records"]), default=nothing)


def _partitions() -> list[TopicPartition]:
    return [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]


async def _until(what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    try:
        async with asyncio.timeout(_SECONDS):
            while not await condition():  # noqa: ASYNC110 - the cluster tells nobody when it is so
                await asyncio.sleep(_PAUSE_SECONDS)
    except TimeoutError:
        raise TopologyRefused(f"waited {_SECONDS:.0f} s in vain until {what}") from None


async def _are_even(client: Client) -> bool:
    told = scatter.results(await replica_status(client, _partitions()))
    return all(len({replica.log_end for replica in status.replicas}) == 1 for status in told.values())


async def _is_missing(client: Client) -> bool:
    return TOPIC not in await topics.list_topics(client)


async def _has_offsets(client: Client, wanted: dict[TopicPartition, Any]) -> bool:
    found = await group_offsets.fetch(client, GROUP)
    return all(partition in found and found[partition].offset == at.offset for partition, at in wanted.items())


async def _read(client: Client, rack: str) -> int:
    """All records from the start, without a group."""
    count = 0
    async with Consumer(client, reset=At.EARLIEST, limits=FetchLimits(rack=rack)) as consumer:
        await consumer.assign(dict.fromkeys(_partitions(), At.EARLIEST))
        while count < RECORDS:
            count += len(await consumer.poll(1.0))
    return count


async def _read_as_group(client: Client, count: int) -> int:
    """So many records, and commit; what has come beyond them at once is not handed over."""
    read = 0
    async with Consumer(client, group_id=GROUP, topics=[TOPIC], reset=At.EARLIEST) as consumer:
        async with asyncio.timeout(_SECONDS):
            while read < count:
                read += len(await consumer.poll(1.0, count - read))
        await consumer.commit()
    return read


async def _left_over(client: Client) -> int:
    """Records that the group has not read."""
    ends = await list_offsets(client, dict.fromkeys(_partitions(), At.LATEST))
    committed = await group_offsets.fetch(client, GROUP)
    return sum(scatter.results(ends)[partition].offset - committed[partition].offset for partition in _partitions())
