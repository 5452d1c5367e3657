"""A worker of a link for tests: it copies the requested partitions of a source through the destination's own APIs."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from isthmus_client.admin.links import describe_links
from isthmus_client.append_mirrored import Batches, LogEnd, append_mirrored, progress
from isthmus_client.batch_io import Fetched, FetchFrom, FetchLimits, fetch_batches
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.records import batches

_PAUSE_SECONDS: Final = 0.02
DEADLINE_SECONDS: Final = 60.0


async def log_of(client: Client, partition: TopicPartition, start: int = 0) -> bytes:
    """The committed batches of a partition from an offset, byte for byte; fetches return whole batches."""
    found, offset = bytearray(), start
    while True:
        answer = (await fetch_batches(client, {partition: FetchFrom(offset)}, FetchLimits(wait_ms=100)))[partition]
        if isinstance(answer, ClientError):
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        whole = [(at, header) for at, header in batches(answer.records)]
        if not whole:
            if offset >= answer.high_watermark:
                return bytes(found)
            continue
        position, last = whole[-1]
        found += answer.records[: position + last.size]
        offset = last.last_offset + 1


async def copy(
    source: Client,
    destination: Client,
    link: str,
    partitions: Collection[TopicPartition],
    *,
    after_append: Callable[[], None] = lambda: None,
    max_bytes: int = 1 << 20,
) -> None:
    """Append the missing records of these partitions (with the same names on both sides) until they have caught up with the source."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        link_id = (await describe_links(destination, [link]))[0].link_id
        assert link_id is not None
        left = set(partitions)
        while left:
            for partition in sorted(left):
                told = (await progress(destination, [partition]))[partition]
                if isinstance(told, ClientError):
                    continue
                limits = FetchLimits(wait_ms=50, max_bytes=max_bytes)
                fetched = (await fetch_batches(source, {partition: FetchFrom(told.log_end_offset, max_bytes)}, limits))[
                    partition
                ]
                if isinstance(fetched, ClientError):
                    continue
                wanted = _append(told.log_end_offset, fetched)
                end = (await append_mirrored(destination, link_id, {partition: wanted}))[partition]
                if isinstance(end, LogEnd) and end.refused is None:
                    after_append()
                    if end.log_end >= fetched.high_watermark:
                        left.discard(partition)
            await asyncio.sleep(_PAUSE_SECONDS)


def _append(end: int, fetched: Fetched) -> Batches:
    whole = list(batches(fetched.records))
    size = whole[-1][0] + whole[-1][1].size if whole else 0
    return Batches(end, fetched.records[:size] or None, fetched.high_watermark, max(fetched.leader_epoch, 0))


def connected(bootstrap: str) -> Client:
    """A client for `async with`."""
    return Client(parse_bootstrap(bootstrap), client_id="isthmus-linker")
