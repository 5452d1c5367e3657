"""The demo of `isthmus demo` on the built-in platform: write in one region, read from an observer in another, lose a region, and fail over
to a linked cluster, where the consumers continue from their committed offsets.
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
from isthmus_topology.wan.control import send_request
from isthmus_topology.wiring import ControlPlane

if TYPE_CHECKING:
    from isthmus_topology.processes import Site

SOURCE: Final = "atlantic"
COPY: Final = "reports"
LINK: Final = "from-atlantic"
HOME, NEIGHBOUR, REMOTE = "eu-west", "eu-north", "us-east"
TOPIC: Final = "demo"
GROUP: Final = "demo-readers"
PARTITIONS: Final = 3
RECORDS: Final = 2_000
READ: Final = 1_200
LATER: Final = 100
_VALUE: Final = bytes(1_000)
_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.1

Report = Callable[[str, str], None]
"""Called with a heading and a result; an empty heading continues the previous one."""


async def run_demo(site: Site, report: Report) -> None:
    """Run the demo; raises TopologyRefused if the topology is not the built-in platform, ClientError if a step fails."""
    names = {cluster.name for cluster in site.topology.clusters}
    if not {SOURCE, COPY} <= names or LINK not in {link.name for link in site.topology.services.cluster_links}:
        raise TopologyRefused("the demo needs the built-in platform: start it with `isthmus up`")
    demo = _Demo(site, report)
    try:
        await demo.write_and_read_nearby()
        await demo.lose_a_region()
        await demo.fail_over()
        await demo.show_the_lag()
    finally:
        await demo.clean_up()


class _Demo:
    def __init__(self, site: Site, report: Report) -> None:
        self._site = site
        self._report = report
        self._began_ms = wall_ms()
        self._written = 0

    async def write_and_read_nearby(self) -> None:
        report = self._report
        orders = next(
            t for c in self._site.topology.clusters if c.name == SOURCE for t in c.topics if t.name == "orders"
        )
        async with self._client(SOURCE, HOME) as client:
            await topics.delete(client, [TOPIC])
            await _until("the topic of an earlier demo is deleted", lambda: _is_missing(client))
            refused = (await topics.create(client, [topics.NewTopic(TOPIC, PARTITIONS, configs=orders.config)]))[TOPIC]
            if refused is not None:
                raise refused
            report(
                f"A topic over three regions, and its mirror in cluster {COPY}",
                f"`{TOPIC}` has two sync replicas in {HOME}, one in {NEIGHBOUR}, an observer in {REMOTE}; link {LINK} copies it.",
            )
            async with self._client(COPY, REMOTE) as copy:
                await self._remove_copy(copy)
                await create_mirror(copy, LINK, TOPIC)
            took = await self._write(client, RECORDS)
            await _until("the observers have caught up", lambda: _are_even(client))
        async with self._client(COPY, REMOTE) as copy:
            await _until("the link has caught up", lambda: self._is_copied(copy))
        report(f"Write {RECORDS} records in {HOME}", f"acknowledged by all in-sync replicas in {took:.2f} s")
        for rack, how in (
            ("", "from the leaders, over the ocean"),
            (f"{REMOTE}/a", f"with client.rack={REMOTE}/a, from the observer"),
        ):
            before = self._into(REMOTE)
            async with self._client(SOURCE, REMOTE) as client:
                count = await _read(client, rack)
            carried = (self._into(REMOTE) - before) / 1_000_000
            report(
                f"Read them in {REMOTE}" if not rack else "",
                f"{count} records {how}: {carried:.1f} MB received in {REMOTE}",
            )

    async def lose_a_region(self) -> None:
        report = self._report
        async with self._client(SOURCE, HOME) as client:
            read = await _read_as_group(client, READ)
            report(f"Group {GROUP} reads", f"{read} of {RECORDS} records, and commits")
            committed = await group_offsets.fetch(client, GROUP)
        async with self._client(COPY, REMOTE) as copy:
            await _until("the link has synchronized the group's offsets", lambda: _has_offsets(copy, committed))
        report("", f"the link has synchronized its offsets to {COPY}")
        self._cut(HOME, NEIGHBOUR)
        self._cut(HOME, REMOTE)
        began = monotonic_ms()
        async with self._client(SOURCE, NEIGHBOUR) as client:
            await _until(f"no partition has its leader in {HOME}", lambda: self._is_led_elsewhere(client))
            await self._write(client, LATER)
            took = (monotonic_ms() - began) / 1000
            view = (await topics.describe(client, [TOPIC]))[TOPIC]
            leaders = sorted({self._region(partition.leader) for partition in view.partitions.values()})
            in_sync = sorted({self._region(broker) for p in view.partitions.values() for broker in p.in_sync})
        report(
            f"Cut {HOME} off from all other regions",
            f"{LATER} records, written in {NEIGHBOUR}, are acknowledged {took:.1f} s after the cut: leaders in {', '.join(leaders)}, "
            f"in sync in {', '.join(in_sync)}; the observer is promoted",
        )

    async def fail_over(self) -> None:
        report = self._report
        async with self._client(COPY, REMOTE) as copy:
            await _until("the link has caught up", lambda: self._is_copied(copy))
            self._cut(NEIGHBOUR, REMOTE)
            began = monotonic_ms()
            why = refusal((await alter_mirrors(copy, MirrorAction.FAILOVER, [TOPIC]))[TOPIC])
            if why is not None:
                raise why
            await self._write(copy, LATER)
            took = (monotonic_ms() - began) / 1000
            report(
                "Cut Europe off altogether, and fail over",
                f"`isthmus link mirror failover {TOPIC}`: written in {COPY} after {took:.2f} s; without Europe",
            )
            read = await _read_as_group(copy, self._written - READ)
            left = await _left_over(copy)
        report("", f"{GROUP} continues there from its committed offsets: {read} records read, {left} left")

    async def show_the_lag(self) -> None:
        """Show the lag of every copy of the topic, after the samples from cut-off regions have arrived."""
        send_request(self._site.control, {"op": "heal"})
        self._report("Heal all cuts, and show the lag", "every copy reports its lag every two seconds")
        async with asyncio.timeout(_SECONDS):
            series = self._lag()
            while not any(each["kind"] != "link" and (_worst(each)["lag_ms"] or 0) > 0 for each in series):
                await asyncio.sleep(_PAUSE_SECONDS)
                series = self._lag()
        for each in series:
            worst, name = _worst(each), f"{each['kind']} {each['link']}".strip()
            lag = f"highest lag {worst['lag_records']} records, {worst['lag_ms'] / 1000:.1f} s"
            self._report("", f"{name} from {each['source_region'] or '?'} to {each['target_region'] or '?'}: {lag}")
        self._report("", "`isthmus lag report` shows it as a page")

    def _lag(self) -> list[dict[str, Any]]:
        path = f"/api/v1/lag?by=regions&topic={TOPIC}&since_ms={self._began_ms}"
        series: list[dict[str, Any]] = ControlPlane(self._site).request("GET", path)["series"]
        return series

    async def clean_up(self) -> None:
        """Heal the cuts and delete the topics, also after a failed step."""
        send_request(self._site.control, {"op": "heal"})
        async with self._client(COPY, REMOTE) as copy:
            await self._remove_copy(copy)
        async with self._client(SOURCE, HOME) as client:
            await topics.delete(client, [TOPIC])
        self._report("Clean up", "all cuts are healed, the topics of the demo are deleted")

    # -- helpers ------------------------------------------------------------------------------------------------------------

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
        reported = await progress(copy, _partitions())
        ends = [each.log_end_offset if isinstance(each, PartitionProgress) else 0 for each in reported.values()]
        return sum(ends) == self._written

    async def _is_led_elsewhere(self, client: Client) -> bool:
        partitions = (await topics.describe(client, [TOPIC]))[TOPIC].partitions.values()
        return all(partition.leader >= 0 and self._region(partition.leader) != HOME for partition in partitions)

    async def _remove_copy(self, copy: Client) -> None:
        for mirror in await describe_mirrors(copy, link=LINK):
            if mirror.topic == TOPIC and mirror.state != MirrorState.STOPPED:
                await alter_mirrors(copy, MirrorAction.FAILOVER, [TOPIC])
        await topics.delete(copy, [TOPIC])
        await _until(f"the copy in {COPY} is deleted", lambda: _is_missing(copy))

    def _cut(self, near: str, far: str) -> None:
        send_request(self._site.control, {"op": "cut", "from": near, "to": far, "one_way": False, "reset": False})

    def _into(self, region: str) -> int:
        return sum(way["carried"] for way in send_request(self._site.control, {"op": "state"}) if way["to"] == region)

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
            while not await condition():  # noqa: ASYNC110 - there is no notification to wait for
                await asyncio.sleep(_PAUSE_SECONDS)
    except TimeoutError:
        raise TopologyRefused(f"timed out after {_SECONDS:.0f} s waiting until {what}") from None


async def _are_even(client: Client) -> bool:
    statuses = scatter.results(await replica_status(client, _partitions()))
    return all(len({replica.log_end for replica in status.replicas}) == 1 for status in statuses.values())


async def _is_missing(client: Client) -> bool:
    return TOPIC not in await topics.list_topics(client)


async def _has_offsets(client: Client, expected: dict[TopicPartition, Any]) -> bool:
    committed = await group_offsets.fetch(client, GROUP)
    return all(
        partition in committed and committed[partition].offset == at.offset for partition, at in expected.items()
    )


async def _read(client: Client, rack: str) -> int:
    """All records from the start, without a group."""
    count = 0
    async with Consumer(client, reset=At.EARLIEST, limits=FetchLimits(rack=rack)) as consumer:
        await consumer.assign(dict.fromkeys(_partitions(), At.EARLIEST))
        while count < RECORDS:
            count += len(await consumer.poll(1.0))
    return count


async def _read_as_group(client: Client, count: int) -> int:
    """Read a number of records as the group, and commit; further fetched records are not consumed."""
    read = 0
    async with Consumer(client, group_id=GROUP, topics=[TOPIC], reset=At.EARLIEST) as consumer:
        async with asyncio.timeout(_SECONDS):
            while read < count:
                read += len(await consumer.poll(1.0, count - read))
        await consumer.commit()
    return read


async def _left_over(client: Client) -> int:
    """The number of records that the group has not read."""
    ends = await list_offsets(client, dict.fromkeys(_partitions(), At.LATEST))
    committed = await group_offsets.fetch(client, GROUP)
    return sum(scatter.results(ends)[partition].offset - committed[partition].offset for partition in _partitions())
