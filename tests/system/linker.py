"""A linker's worker as a process, and what tests want to know of the clusters it joins."""

import asyncio
import subprocess
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from isthmus_client.admin import group_offsets
from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.admin.mirrors import describe_mirrors
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.extensions.mirrors import DescribedMirror
from prometheus_client.parser import text_string_to_metric_families

from tests.process import ISTHMUS
from tests.system.mirroring import log_of
from tests.system.quorums import query, wait_for
from tests.system.worker import WorkerProcess


class Linker(WorkerProcess):
    """One worker."""

    def __init__(self, directory: Path, destination: str, name: str = "linker") -> None:
        super().__init__(directory / f"{name}.log", "linker", "--bootstrap", destination)

    def copied(self) -> set[tuple[str, int]]:
        """The partitions that it copies, from its metrics."""
        return {(one["topic"], int(one["partition"])) for one, _ in self._metric("isthmus_link_bytes_total")}

    def unreachable_brokers(self) -> set[int]:
        """The unreachable brokers of its sources, from its metrics."""
        return {int(one["broker"]) for one, value in self._metric("isthmus_link_source_broker_up") if value == 0}

    def _metric(self, name: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values of a metric."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]


@contextmanager
def running_linker(directory: Path, destination: str, name: str = "linker") -> Iterator[Linker]:
    """A worker that ends with the block."""
    linker = Linker(directory, destination, name)
    linker.start()
    try:
        yield linker
    finally:
        linker.stop()


def link(destination: str, *arguments: str) -> str:
    """What `isthmus link` says."""
    done = subprocess.run(
        [ISTHMUS, "link", *arguments, "-b", destination], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def settings(values: Mapping[str, str]) -> list[str]:
    """As arguments of `isthmus link create`."""
    return [word for key, value in values.items() for word in ("--config", f"{key}={value}")]


def await_mirrors(destination: str, done: Callable[[dict[str, DescribedMirror]], bool]) -> dict[str, DescribedMirror]:
    """Wait until the mirror topics are so."""

    async def with_client(client: Client) -> dict[str, DescribedMirror]:
        return {mirror.topic: mirror for mirror in await describe_mirrors(client)}

    return wait_for(destination, with_client, done)


def await_states(destination: str, states: Mapping[str, str]) -> dict[str, DescribedMirror]:
    """Wait until the mirror topics have these states."""
    return await_mirrors(
        destination, lambda found: all(topic in found and found[topic].state == states[topic] for topic in states)
    )


async def _extent(client: Client, partitions: Collection[TopicPartition]) -> list[tuple[int, int]]:
    starts: dict[TopicPartition, ListedOffset] = results(
        await list_offsets(client, dict.fromkeys(partitions, At.EARLIEST))
    )
    ends: dict[TopicPartition, ListedOffset] = results(await list_offsets(client, dict.fromkeys(partitions, At.LATEST)))
    return [(starts[partition].offset, ends[partition].offset) for partition in partitions]


def extents(bootstrap: str, partitions: Collection[TopicPartition]) -> list[tuple[int, int]]:
    """Start and end of each log."""
    return query(bootstrap, lambda client: _extent(client, partitions))


def await_level(source: str, destination: str, partitions: Mapping[TopicPartition, TopicPartition]) -> None:
    """Wait until every copy ends where its source ends now."""
    ends = [end for _, end in extents(source, list(partitions))]

    async def with_client(client: Client) -> list[int]:
        return [end for _, end in await _extent(client, list(partitions.values()))]

    wait_for(destination, with_client, lambda found: found == ends)


def assert_identical(source: str, destination: str, partitions: Mapping[TopicPartition, TopicPartition]) -> None:
    """The same batches, byte for byte, from the source's log start on."""
    starts = [start for start, _ in extents(source, list(partitions))]

    async def logs(bootstrap: str, wanted: Collection[TopicPartition]) -> list[bytes]:
        async with Client(parse_bootstrap(bootstrap)) as client:
            await client.metadata_of({partition.topic for partition in wanted})
            return [await log_of(client, each, start) for each, start in zip(wanted, starts, strict=True)]

    theirs = asyncio.run(logs(source, list(partitions)))
    ours = asyncio.run(logs(destination, list(partitions.values())))
    for partition, there, here in zip(partitions, theirs, ours, strict=True):
        assert there == here, f"partition {partition}: {len(there)} bytes at the source, {len(here)} in the copy"


def await_committed(bootstrap: str, group: str, wanted: Mapping[TopicPartition, int]) -> None:
    """Wait until a group has exactly these offsets of these partitions."""

    async def with_client(client: Client) -> dict[TopicPartition, int]:
        found = await group_offsets.fetch(client, group, list(wanted))
        return {partition: committed.offset for partition, committed in found.items()}

    wait_for(bootstrap, with_client, lambda found: found == dict(wanted))
