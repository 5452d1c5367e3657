"""A small consumer of records: partitions assigned manually or by a group of either protocol, read from leaders or nearby replicas.

    async with Consumer(client, group_id="g", topics=["t"]) as consumer:
        async for records in consumer:
            ...

Positions follow the records that were returned: with `commit` after processing, delivery is at least once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import Record, batches

from isthmus_client.admin import group_offsets
from isthmus_client.admin.group_offsets import Committed, GroupMetadata
from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.batch_io import Fetched, FetchFrom, FetchLimits, fetch_from
from isthmus_client.batch_reader import visible_records
from isthmus_client.client import Client
from isthmus_client.consumer_member import ConsumerMember
from isthmus_client.errors import ClientError, LogTruncated, Refused
from isthmus_client.group_member import GroupMember
from isthmus_client.limits import METADATA_AGE_SECONDS, POLL_RECORDS_MAX
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results
from isthmus_client.retry import is_retriable

_GENERATION_OVER: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.rebalance_in_progress,
        ErrorCode.stale_member_epoch,
        ErrorCode.fenced_member_epoch,
    }
)
_lanes: Final = itertools.count()


class GroupProtocol(Enum):
    """How a group's partitions are assigned: by its leader, or (KIP-848) by the coordinator."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class ConsumedRecord(NamedTuple):
    """A record and its partition."""

    partition: TopicPartition
    record: Record


class _Reading:
    """The state of one assigned partition."""

    __slots__ = ("buffered", "epoch", "near", "near_until", "position")

    def __init__(self, position: int, epoch: int = -1) -> None:
        self.position = position  # of the next record to return
        self.epoch = epoch  # leader epoch of the record before it; -1 if unknown
        self.buffered = False
        self.near = -1  # the leader's preferred read replica for this rack
        self.near_until = 0.0

    def source(self, leader: int, now: float) -> int:
        """The broker to read from."""
        return self.near if self.near >= 0 and now < self.near_until else leader

    def committed_epoch(self) -> int:
        """The epoch to commit; unknown while records are buffered."""
        return -1 if self.buffered else self.epoch


class Consumer:
    """A consumer and async context manager; leaving the block leaves the group. It commits only on `commit`.

    With `FetchLimits.rack` it reads from a replica of that rack if there is one (KIP-392), and from the leader if that fails.
    A log that lost records already read raises LogTruncated, or continues at the point of divergence if `reset` is set.
    """

    def __init__(
        self,
        client: Client,
        *,
        group_id: str | None = None,
        topics: Collection[str] = (),
        protocol: GroupProtocol = GroupProtocol.CLASSIC,
        read_committed: bool = False,
        reset: At | None = At.LATEST,
        limits: FetchLimits | None = None,
    ) -> None:
        """`read_committed` hides aborted transactions, and records from the first open transaction on.

        `reset` is where to begin without a committed offset or when the position is out of range; None: raise.
        """
        self._client = client
        self._group_id = group_id
        kind = GroupMember if protocol is GroupProtocol.CLASSIC else ConsumerMember
        self._member = kind(client, group_id, topics) if group_id is not None and topics else None
        self._reset = reset
        limits = limits or FetchLimits()
        self._limits = replace(limits, read_committed=True) if read_committed else limits
        self._lane = f"fetch {next(_lanes)}"  # its long polls must not delay another consumer's
        self._reading: dict[TopicPartition, _Reading] = {}
        self._ready: deque[tuple[TopicPartition, _Reading, Iterator[tuple[Record | None, int]]]] = deque()
        self._fetches: dict[int, asyncio.Task[dict[TopicPartition, Fetched | Refused]]] = {}
        self._requested: dict[int, dict[TopicPartition, tuple[_Reading, int]]] = {}
        self._failures = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions."""
        return tuple(self._reading)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to return."""
        return self._reading[partition].position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset."""
        self._reading[partition] = _Reading(offset)

    async def assign(
        self, starts: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Read exactly these partitions, each from an offset or an `At`; `epochs` are the leader epochs of the records before, if known."""
        special = {tp: start for tp, start in starts.items() if start < 0}
        listed = await self._listed(special) if special else {}
        self._reading = {
            tp: _Reading(listed[tp].offset) if tp in listed else _Reading(start, (epochs or {}).get(tp, -1))
            for tp, start in starts.items()
        }

    async def _listed(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        return results(await list_offsets(self._client, starts, read_committed=self._limits.read_committed))

    async def poll(self, seconds: float, most: int = POLL_RECORDS_MAX) -> list[ConsumedRecord]:
        """Up to `most` records as soon as there are any, none after `seconds`. Joining a group is not bounded by `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            if self._member is not None and (self._member.lost.is_set() or self._member.generation < 0):
                await self._rejoin(self._member)
            if taken := self._take(most):
                return taken
            left = deadline - loop.time()
            if left <= 0:
                return []
            await self._start_fetches()
            await self._gather(left)

    async def __aiter__(self) -> AsyncIterator[list[ConsumedRecord]]:
        while True:
            if records := await self.poll(self._limits.wait_ms / 1000):
                yield records

    def offsets(self) -> dict[TopicPartition, Committed]:
        """The positions as offsets to commit, here or in a transaction."""
        return {tp: Committed(reading.position, reading.committed_epoch()) for tp, reading in self._reading.items()}

    def group_metadata(self) -> GroupMetadata:
        """As whom to commit in a transaction; it is refused once the group has rebalanced."""
        assert self._group_id is not None, "a consumer without a group has nowhere to commit"
        if self._member is None:
            return GroupMetadata(self._group_id)
        return GroupMetadata(self._group_id, self._member.generation, self._member.member_id)

    async def commit(self) -> bool:
        """Commit the positions for the group; False while it rebalances: the next owners will read those records again.

        Raises ClientError.
        """
        group, member = self.group_metadata(), self._member
        outcomes = await group_offsets.commit(
            self._client, group.group_id, self.offsets(), member_id=group.member_id, generation=group.generation
        )
        for error in outcomes.values():
            if error is None:
                continue
            if member is not None and error.code in _GENERATION_OVER:
                member.lost.set()
                return False
            raise error
        return True

    async def close(self) -> None:
        """Stop reading and leave the group."""
        for task in self._fetches.values():
            task.cancel()
        if self._fetches:
            await asyncio.wait(self._fetches.values())
        self._fetches.clear()
        self._client.close_lane(self._lane)
        if self._member is not None:
            await self._member.leave()

    async def _rejoin(self, member: GroupMember | ConsumerMember) -> None:
        before, self._reading = self._reading, {}
        partitions = await member.join()
        kept = {tp: before[tp] for tp in partitions if tp in before} if member.keeps_partitions else {}
        fresh = [tp for tp in partitions if tp not in kept]
        committed: dict[TopicPartition, Committed] = {}
        if fresh:  # a transaction that is still being completed may move the offsets
            committed = await group_offsets.fetch(self._client, member.group_id, fresh, require_stable=True)
        starts = {tp: committed[tp].offset for tp in fresh if tp in committed}
        for partition in fresh:
            if partition not in starts:
                starts[partition] = self._start_without_offset(partition)
        await self.assign(starts, {tp: offset.leader_epoch for tp, offset in committed.items()})
        self._reading |= kept

    def _start_without_offset(self, partition: TopicPartition) -> At:
        if self._reset is None:
            raise ClientError(f"group {self._group_id} has no offset for partition {partition}, and no reset is set")
        return self._reset

    def _take(self, most: int) -> list[ConsumedRecord]:
        taken: list[ConsumedRecord] = []
        while self._ready and len(taken) < most:
            partition, reading, records = self._ready[0]
            if self._reading.get(partition) is not reading:
                self._ready.popleft()
                continue
            for record, after in records:
                reading.position = after
                if record is not None:
                    taken.append(ConsumedRecord(partition, record))
                    if len(taken) == most:
                        return taken
            reading.buffered = False
            self._ready.popleft()
        return taken

    async def _start_fetches(self) -> None:
        """One fetch per broker at a time, of the partitions without buffered records."""
        unbuffered = [tp for tp, reading in self._reading.items() if not reading.buffered]
        shares: dict[int, dict[TopicPartition, FetchFrom]] = {}
        for partition, leader in (await self._client.leaders(unbuffered)).items():
            if isinstance(leader, Refused):
                if not is_retriable(leader):
                    raise leader
                self._client.invalidate(leader)
                continue
            reading = self._reading[partition]
            source = reading.source(leader.node_id, asyncio.get_running_loop().time())
            if source not in self._fetches:
                current = self._client.view.leader(partition)
                epoch = current.leader_epoch if current is not None else -1
                start = FetchFrom(reading.position, leader_epoch=epoch, last_fetched_epoch=reading.epoch)
                shares.setdefault(source, {})[partition] = start
        for broker, share in shares.items():
            fetch = fetch_from(self._client, broker, share, self._limits, lane=self._lane)
            self._fetches[broker] = asyncio.get_running_loop().create_task(fetch)
            self._requested[broker] = {tp: (self._reading[tp], at.offset) for tp, at in share.items()}

    async def _gather(self, seconds: float) -> None:
        """Wait for a fetch, a rebalance or the timeout, and buffer what was fetched."""
        if not self._fetches:
            await asyncio.sleep(min(seconds, self._pause()))
            return
        waiting: set[asyncio.Task[Any]] = set(self._fetches.values())
        lost = None
        if self._member is not None:
            lost = asyncio.get_running_loop().create_task(self._member.lost.wait())
            waiting.add(lost)
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if lost is not None:
            lost.cancel()
        trouble: list[ClientError] = []
        for broker, task in list(self._fetches.items()):
            if task.done():
                del self._fetches[broker]
                trouble += await self._accept(broker, self._requested.pop(broker), task)
        for error in trouble:
            if not is_retriable(error):
                raise error
        self._failures = self._failures + 1 if trouble else 0
        if trouble:
            await asyncio.sleep(min(seconds, self._pause()))

    def _pause(self) -> float:
        return self._client.pause(max(self._failures, 1))

    async def _accept(
        self,
        broker: int,
        requested: Mapping[TopicPartition, tuple[_Reading, int]],
        task: asyncio.Task[dict[TopicPartition, Fetched | Refused]],
    ) -> list[ClientError]:
        try:
            outcomes = task.result()
        except ClientError as error:
            for reading, _ in requested.values():
                reading.near = -1
            return [error]
        trouble: list[ClientError] = []
        for partition, outcome in outcomes.items():
            reading, offset = requested[partition]
            if self._reading.get(partition) is not reading or reading.buffered or reading.position != offset:
                continue  # moved by seek, revoked, or fetched from a new leader meanwhile
            is_usable = isinstance(outcome, Fetched) and outcome.diverging_epoch is None
            if reading.near == broker and not is_usable:
                reading.near = -1  # the leader decides about any error, and whether the log has lost records
                await asyncio.sleep(self._pause())  # it may name the same replica again
            elif isinstance(outcome, Fetched):
                self._handle_fetched(partition, reading, offset, outcome)
            elif outcome.code is ErrorCode.offset_out_of_range and self._reset is not None:
                self.seek(partition, (await self._listed({partition: self._reset}))[partition].offset)
            else:
                trouble.append(outcome)
        return trouble

    def _handle_fetched(self, partition: TopicPartition, reading: _Reading, offset: int, fetched: Fetched) -> None:
        if fetched.diverging_epoch is not None:
            epoch, end_offset = fetched.diverging_epoch
            if self._reset is None or end_offset < 0:
                raise LogTruncated(partition, offset, end_offset)
            self._reading[partition] = _Reading(min(offset, end_offset), epoch)
        elif fetched.preferred_read_replica >= 0:
            reading.near = fetched.preferred_read_replica
            reading.near_until = asyncio.get_running_loop().time() + METADATA_AGE_SECONDS
        elif len(fetched.records):
            self._buffer(partition, reading, offset, fetched)

    def _buffer(self, partition: TopicPartition, reading: _Reading, offset: int, fetched: Fetched) -> None:
        committed = self._limits.read_committed
        reading.buffered = True
        reading.epoch = max((header.leader_epoch for _, header in batches(fetched.records)), default=reading.epoch)
        records = visible_records(fetched.records, offset, fetched.aborted, read_committed=committed)
        self._ready.append((partition, reading, records))
