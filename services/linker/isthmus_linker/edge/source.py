"""Look up offsets at a link's source."""

from collections.abc import Collection
from datetime import UTC, datetime

from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition

from isthmus_linker.core.partition import SourceRange
from isthmus_linker.core.settings import EARLIEST, LATEST


async def source_ranges(
    client: Client, partitions: Collection[TopicPartition], start: str
) -> dict[TopicPartition, SourceRange | ClientError]:
    """Each partition's range at the source and the start of a new copy, or an error."""
    earliest = await list_offsets(client, dict.fromkeys(partitions, At.EARLIEST))
    begins = earliest if start == EARLIEST else await _begins(client, partitions, start)
    return {tp: _range(client, tp, earliest[tp], begins[tp]) for tp in partitions}


async def _begins(
    client: Client, partitions: Collection[TopicPartition], start: str
) -> dict[TopicPartition, ListedOffset | ClientError]:
    """The start of new copies; a timestamp after the last record means the end."""
    latest = await list_offsets(client, dict.fromkeys(partitions, At.LATEST))
    if start == LATEST:
        return latest
    listed = await list_offsets(client, dict.fromkeys(partitions, _millis(start)))
    return {tp: latest[tp] if isinstance(one, ListedOffset) and one.offset < 0 else one for tp, one in listed.items()}


def _range(
    client: Client, partition: TopicPartition, earliest: ListedOffset | ClientError, begin: ListedOffset | ClientError
) -> SourceRange | ClientError:
    if isinstance(earliest, ClientError):
        return earliest
    if isinstance(begin, ClientError):
        return begin
    current = client.view.leader(partition)
    return SourceRange(
        earliest.offset, max(begin.offset, earliest.offset), -1 if current is None else current.leader_epoch
    )


def _millis(text: str) -> int:
    """Milliseconds of an ISO 8601 timestamp; UTC if it has no zone."""
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)
