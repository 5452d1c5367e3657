"""A mirror as a process, and what tests want to know of its copies."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.records import Record, batches, iterate_records

from tests.system.mirroring import log_of
from tests.system.worker import WorkerProcess


class MirrorProcess(WorkerProcess):
    """With a file of settings as MirrorMaker reads it."""

    def __init__(self, directory: Path, clusters: Mapping[str, str], settings: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "mm2.properties"
        lines = {"clusters": ", ".join(clusters)}
        lines |= {f"{alias}.bootstrap.servers": bootstrap for alias, bootstrap in clusters.items()}
        file.write_text("".join(f"{key} = {value}\n" for key, value in (lines | dict(settings)).items()))
        super().__init__(directory / "mirror.log", "mirror", "-c", file)


@contextmanager
def running_mirror(
    directory: Path, clusters: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[MirrorProcess]:
    """A mirror that ends with the block."""
    mirror = MirrorProcess(directory, clusters, settings)
    mirror.start()
    try:
        yield mirror
    finally:
        mirror.stop()


async def records_of(client: Client, partition: TopicPartition) -> list[Record]:
    """Every record of a partition, markers left out."""
    await client.metadata_of({partition.topic})
    data = await log_of(client, partition)
    return [record for at, header in batches(data) if not header.is_control for record in iterate_records(data, at)]


async def contents(bootstrap: str, partitions: list[TopicPartition]) -> list[list[Record]]:
    """Of several partitions."""
    async with Client(parse_bootstrap(bootstrap)) as client:
        return [await records_of(client, partition) for partition in partitions]


def without_offsets(records: list[Record]) -> list[Record]:
    """What must be the same on both sides."""
    return [record._replace(offset=0) for record in records]
