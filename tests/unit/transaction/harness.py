"""A shard of the transaction coordinator with a log in memory; a new leader can load it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from isthmus_broker.core.coordinator.result import Note, RequestContext
from isthmus_broker.core.coordinator.runtime import Runtime
from isthmus_broker.core.transaction.config import TransactionConfig
from isthmus_broker.core.transaction.records import TopicPartition, Transaction
from isthmus_broker.core.transaction.requests import (
    AddPartitions,
    DescribeTransaction,
    Description,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    NeedsProducerId,
    Outcome,
    Resubmit,
    Verified,
    WriteMarkers,
    refuse,
)
from isthmus_broker.core.transaction.shard import TransactionShard
from isthmus_model.clocks import MonotonicMs, Now, WallMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId

NAME = "payments"
TIMEOUT_MS = 60_000
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
CONTEXT = RequestContext(api_version=0)


class World:
    """One transactional id's coordinator. Appends succeed and are committed at once, unless `commits` or `refuses` is set."""

    def __init__(self, version: int = 2, config: TransactionConfig | None = None) -> None:
        self.version = version
        self.config = config or TransactionConfig()
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.replies: dict[int, Any] = {}
        self.notes: list[Note] = []
        self.sent: list[WriteMarkers] = []
        self.commits = True
        self.refuses: ErrorCode | None = None
        self.next_id = 1_000
        self._token = 0
        self.epoch = 0
        self.load()

    @property
    def now(self) -> Now:
        return Now(WallMs(self.now_ms), MonotonicMs(self.now_ms))

    def load(self, high_watermark: int | None = None) -> None:
        """Load the log as the next leader does."""
        self.epoch += 1
        self.runtime: Runtime[int] = Runtime(
            self._new_shard,
            lambda request, _context, error: refuse(request, error),
            self.version,
            trusts_log_end=False,
        )
        self.runtime.load_begin(self.epoch, lambda: 1_000_000)
        self.runtime.committed(len(self.log) if high_watermark is None else high_watermark, self.now)
        for offset, (key, value) in enumerate(self.log):
            self.runtime.load(offset, key, value, None, self.now)
        self.runtime.load_end(self.now)
        self.settle()

    def _new_shard(self, timers: Any, outbox: Any) -> TransactionShard:
        self.shard = TransactionShard(timers, outbox, self.config, lambda: self.runtime.epoch)
        return self.shard

    def commit(self) -> None:
        """Every record in the log is committed."""
        self.runtime.committed(len(self.log), self.now)
        self.settle()

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.runtime.tick(self.now)
        self.settle()

    def settle(self) -> None:
        """Carry out outputs, and run what is due, until there is nothing."""
        while True:
            ready = self.runtime.take()
            for append in ready.appends:
                if self.refuses is not None:
                    self.runtime.append_failed(append.seq, self.refuses, self.now)
                    continue
                self.log += append.records
                self.runtime.appended(append.seq, len(self.log) - 1, self.now)
                if self.commits:
                    self.runtime.committed(len(self.log), self.now)
            self.replies.update(ready.replies)
            self.notes += ready.notes
            for effect in ready.effects:
                if isinstance(effect, Resubmit):
                    self.submit(replace(effect.request, spare_id=self._spare()))
                else:
                    assert isinstance(effect, WriteMarkers)
                    self.sent.append(effect)
            deadline = self.runtime.deadline()
            if deadline is not None and deadline <= self.now_ms:
                self.runtime.tick(self.now)
            elif not ready:
                return

    def submit(self, request: Any) -> int:
        self._token += 1
        self.runtime.submit(self._token, request, CONTEXT, self.now)
        self.settle()
        return self._token

    def _spare(self) -> int:
        self.next_id += 1
        return self.next_id

    def send(self, request: Any) -> Any:
        """The response, with a spare producer id if one is needed; None if it waits for the commit."""
        response = self.replies.get(self.submit(request))
        if isinstance(response, NeedsProducerId):
            response = self.replies.get(self.submit(replace(request, spare_id=self._spare())))
        return response

    # -- requests ------------------------------------------------------------------------------------------------------------

    def init(self, expected: ProducerId | None = None, timeout_ms: int = TIMEOUT_MS) -> Outcome:
        outcome = self.send(InitProducer(transactional_id=NAME, timeout_ms=timeout_ms, expected=expected))
        assert isinstance(outcome, Outcome)
        return outcome

    def started(self) -> ProducerId:
        outcome = self.init()
        assert outcome.error is ErrorCode.none
        return outcome.producer

    def add(self, producer: ProducerId, *places: TopicPartition, version: int = 2, verify_only: bool = False) -> Any:
        """The error that all partitions have, or the errors by partition."""
        verified = self.send(
            AddPartitions(
                transactional_id=NAME,
                producer=producer,
                partitions=frozenset(places),
                version=version,
                verify_only=verify_only,
            )
        )
        if verified is None:
            return None
        assert isinstance(verified, Verified)
        errors = set(verified.errors.values())
        return errors.pop() if len(errors) == 1 else dict(verified.errors)

    def end(self, producer: ProducerId, *, commits: bool, version: int = 2) -> Any:
        return self.send(EndTransaction(transactional_id=NAME, producer=producer, commits=commits, version=version))

    def written(self, order: WriteMarkers, places: Iterable[TopicPartition] | None = None) -> None:
        """Report markers; all of the order's by default."""
        partitions = order.partitions if places is None else frozenset(places)
        self.send(
            MarkersWritten(
                transactional_id=order.transactional_id, producer=order.marker.producer, partitions=partitions
            )
        )

    def finish(self) -> None:
        """Report all markers that were sent."""
        sent, self.sent = self.sent, []
        for order in sent:
            self.written(order)

    def describe(self) -> Description:
        description = self.send(DescribeTransaction(NAME))
        assert isinstance(description, Description)
        return description

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions[NAME]

    @property
    def state(self) -> str:
        return self.transaction.state.name
