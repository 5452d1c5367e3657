"""What two regions that copy a topic to each other must have: the same committed records, once, and no transaction that was split.

The value of a record of a transaction is `<region>:<transaction>:<record>`, and begins with `aborted` if the transaction is aborted.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from isthmus_client.batch_io import Fetched, FetchFrom, FetchLimits, fetch_batches
from isthmus_client.batch_reader import visible_records
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results
from isthmus_wire.markers import marker_of
from isthmus_wire.records import batches, iterate_records

ABORTED: Final = b"aborted"
PLAIN: Final = b"plain"
"""In place of the number of a transaction, for records outside of one."""

Values = Mapping[str, list[list[bytes]]]
"""The values that a consumer of committed records sees in each region, by partition."""


async def committed_values(client: Client, partition: TopicPartition) -> list[bytes]:
    """What a consumer of committed records sees now; raises ClientError."""
    values: list[bytes] = []
    position = 0
    while True:
        fetched = await _fetched(client, partition, position, read_committed=True)
        before = position
        for record, following in visible_records(fetched.records, position, fetched.aborted, read_committed=True):
            if record is not None:
                values.append(record.value or b"")
            position = following
        if position == before:
            return values


async def transactions_of(client: Client, partition: TopicPartition) -> dict[bytes, int]:
    """The offset of the marker that committed each value; raises ClientError.

    A value may also be in transactions that were aborted: of a member that the others thought dead.
    """
    committed: dict[bytes, int] = {}
    open_values: dict[int, list[bytes]] = {}
    position = 0
    while True:
        fetched = await _fetched(client, partition, position, read_committed=False)
        before = position
        for at, header in batches(fetched.records):
            values = open_values.setdefault(header.producer_id, [])
            for record in iterate_records(fetched.records, at):
                marker = marker_of(header, record) if header.is_control else None
                if marker is None:
                    values.append(record.value or b"")
                elif marker.committed:
                    committed |= dict.fromkeys(values, header.base_offset)
            if header.is_control:
                values.clear()
            position = header.last_offset + 1
        if position == before:
            return committed


async def _fetched(client: Client, partition: TopicPartition, position: int, *, read_committed: bool) -> Fetched:
    limits = FetchLimits(wait_ms=0, read_committed=read_committed)
    return results(await fetch_batches(client, {partition: FetchFrom(position)}, limits))[partition]


def split_transactions(copied_in: Mapping[bytes, int]) -> list[bytes]:
    """The transactions whose records were copied in several."""
    seen: dict[bytes, set[int]] = {}
    for value, transaction in copied_in.items():
        name, _, _ = value.rpartition(b":")
        if not name.endswith(PLAIN):
            seen.setdefault(name, set()).add(transaction)
    return [name for name, transactions in seen.items() if len(transactions) > 1]


def of_region(values: Iterable[bytes], region: str) -> list[bytes]:
    """The records that were produced to a region."""
    return [value for value in values if value.startswith(region.encode())]


def problems_of(values: Values) -> list[str]:
    """Records that are there twice, or should not be."""
    found: list[str] = []
    for region, partitions in values.items():
        for index, there in enumerate(partitions):
            if len(set(there)) < len(there):
                twice = sorted({value for value in there if there.count(value) > 1})
                found.append(f"twice: partition {index} of {region} has {twice[:3]} more than once")
            if aborted := [value for value in there if value.startswith(ABORTED)]:
                found.append(f"aborted: partition {index} of {region} shows {aborted[:3]}")
    return found


def is_level(values: Values) -> bool:
    """Whether every region has the same records in each partition, in any order."""
    contents = [[sorted(there) for there in partitions] for partitions in values.values()]
    return all(one == contents[0] for one in contents)


def differences_of(values: Values, regions: Collection[str]) -> list[str]:
    """Where the records of one region are not the same, in order, in all regions."""
    found: list[str] = []
    for region in regions:
        for index, versions in enumerate(zip(*values.values(), strict=True)):
            ours = [of_region(there, region) for there in versions]
            if any(one != ours[0] for one in ours):
                found.append(f"order: the records of {region} in partition {index} differ")
    return found
