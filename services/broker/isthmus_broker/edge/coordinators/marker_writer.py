"""Writes transaction markers to partitions that this node leads; the result is known when the in-sync replicas have them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from isthmus_model.clocks import Clocks
from isthmus_model.internal_topics import OFFSETS_TOPIC
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, build_marker

from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.core.replica.uncommitted import Uncommitted
from isthmus_broker.core.replica.waiting import Waiting
from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.edge.coordinators.host import CoordinatorHost
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.storage.files import DiskFailure

_CONTEXT: Final = RequestContext(api_version=0)
_NOT_COORDINATOR: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class PlacedMarker(NamedTuple):
    """A marker for one partition."""

    marker: Marker
    place: TopicPartition


class _Writing:
    """Markers of one call: their errors, and the appends that are not committed yet."""

    def __init__(self, count: int) -> None:
        self.uncommitted: dict[int, Uncommitted] = {}
        self._errors: dict[int, ErrorCode] = {}
        self._count = count
        self._finished = asyncio.Event()

    def settle(self, number: int, error: ErrorCode) -> None:
        """The outcome of one marker."""
        self._errors[number] = error
        if len(self._errors) == self._count:
            self._finished.set()

    async def errors(self, timeout_ms: int) -> list[ErrorCode]:
        """All outcomes, as soon as they are known."""
        if not self._check():
            replicas = [one.replica for one in self.uncommitted.values()]
            loop = asyncio.get_running_loop()
            Waiting(loop, replicas, timeout_ms, self._check, bool, self._time_out)
        if len(self._errors) < self._count:
            await self._finished.wait()
        return [self._errors[number] for number in range(self._count)]

    def _check(self) -> bool:
        for number, one in list(self.uncommitted.items()):
            outcome = one.outcome()
            if outcome is not None:
                del self.uncommitted[number]
                self.settle(number, outcome)
        return not self.uncommitted

    def _time_out(self, _is_complete: bool) -> None:
        for number in list(self.uncommitted):
            self.settle(number, ErrorCode.request_timed_out)


class MarkerWriter:
    """Appends markers; those for __consumer_offsets go through the group coordinator, whose pending offsets they end."""

    def __init__(self, replicas: ReplicaManager, groups: CoordinatorHost[Any], clocks: Clocks) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clocks = clocks

    async def write(self, markers: Sequence[PlacedMarker], timeout_ms: int) -> list[ErrorCode]:
        """Write the markers; returns the error of each, in order."""
        writing = _Writing(len(markers))
        for number, (marker, place) in enumerate(markers):
            if place.topic == OFFSETS_TOPIC:
                self._end_in_group(place.partition, marker, partial(writing.settle, number))
                continue
            outcome = self._append(marker, place)
            if isinstance(outcome, Uncommitted):
                writing.uncommitted[number] = outcome
            else:
                writing.settle(number, outcome)
        return await writing.errors(timeout_ms)

    def _end_in_group(self, index: int, marker: Marker, settle: Callable[[ErrorCode], None]) -> None:
        def respond(error: object) -> None:
            assert isinstance(error, ErrorCode)
            settle(ErrorCode.not_leader_or_follower if error in _NOT_COORDINATOR else error)

        if not self._groups.submit(index, marker, _CONTEXT, respond):
            settle(ErrorCode.not_leader_or_follower)

    def _append(self, marker: Marker, place: TopicPartition) -> Uncommitted | ErrorCode:
        partition = self._replicas.find(*place)
        if isinstance(partition, ErrorCode) or partition.log is None:
            return ErrorCode.unknown_topic_or_partition
        now = self._clocks.now()
        try:
            outcome = partition.append(bytearray(build_marker(marker, now.wall)), now.monotonic, marker=marker)
        except DiskFailure as failure:
            self._replicas.fail(partition, failure)
            return ErrorCode.kafka_storage_error
        if isinstance(outcome, Refusal):
            return outcome.error
        return Uncommitted.now(partition) if partition.has_uncommitted else ErrorCode.none
