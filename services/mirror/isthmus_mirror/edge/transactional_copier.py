"""Writing copies that others write to as well, in transactions of the target.

One transaction at a time holds the batches of all partitions that this mirror copies, the records of its progress, and the commit of the
source's offsets in the flow's group. Its id belongs to this mirror's number in the group: a mirror that takes over a number aborts the
transaction of the one before it, and the group refuses offsets of an earlier generation.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from isthmus_client.admin.group_offsets import Committed, GroupMetadata
from isthmus_client.admin.transactions import fence_producers
from isthmus_client.batch_io import Fetched
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.errors import ClientError, MustAbort, OutcomeUnknown, Refused
from isthmus_client.transactional_producer import TransactionalProducer
from isthmus_client.work_sharing import Share
from isthmus_copying.edge.leaders import leaders_of
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import batches

from isthmus_mirror.core.limits import SPLIT_AFTER_MS, TRANSACTION_BYTES_MAX, TRANSACTION_TIMEOUT_MS
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.core.transactional import Outgoing, TransactionalCopy
from isthmus_mirror.core.written import encode_written
from isthmus_mirror.edge.copier import FlowCopier
from isthmus_mirror.edge.origin_log import OriginLog
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.targets import Assignment, Route, Target
from isthmus_mirror.edge.transactional_lookups import TransactionalLookups, metadata_of

logger = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 0.25
_ORPHANS_MAX: Final = 16
"""The group shrinks by fewer members at once; beyond that, the target's timeout aborts their transactions."""
_TOO_LARGE: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)

Targets = Collection[Target[TransactionalCopy]]


class Session(NamedTuple):
    """This mirror's part in one generation of the flow's group."""

    share: Share
    group: GroupMetadata


class Writing(NamedTuple):
    """How a flow writes in transactions."""

    id_prefix: str
    """Of its transactional ids."""
    settings: FlowSettings
    skips: Callable[[str], frozenset[str]]
    """The origins of a topic's records that are not copied."""


class TransactionalCopier(FlowCopier[TransactionalCopy]):
    """The copies of a flow in transactions. `join` sets this mirror's part before `assign` sets its partitions."""

    def __init__(self, route: Route, writing: Writing, log: ProgressLog, origins: OriginLog | None) -> None:
        super().__init__(route)
        self._writing = writing
        self._log = log
        self._origins = origins
        self._joined: Session | None = None
        self._served: Session | None = None
        self._lookups = TransactionalLookups(route, log, writing.settings, self._looked_up)

    def join(self, share: Share, group: GroupMetadata) -> None:
        """Write as this member of the group from now on, and only its partitions: the group refuses earlier generations alone."""
        self._joined = Session(share, group)
        self.assign([target.assignment for target in self.targets.values()])
        self._loops.work.ring()

    def assign(self, assignments: Collection[Assignment]) -> None:
        share = self._joined.share if self._joined is not None else None
        super().assign([one for one in assignments if share is not None and share.holds_partition(*one.target)])

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._loops.run(self, self._write())
        finally:
            self.assign(())

    def _new_copy(self, assignment: Assignment) -> TransactionalCopy:
        settings = self._writing.settings
        copy = TransactionalCopy(
            source=settings.source,
            target=settings.target,
            target_producer_id=assignment.target_producer_id,
            read_committed=True,
        )
        if self._origins is not None:
            copy.skips = self._writing.skips(assignment.source.topic)
            copy.origins = self._origins.of(assignment.source, assignment.source_id)
        return copy

    def _place_copies(self, group: asyncio.TaskGroup) -> None:
        if self._served is not None:
            self._lookups.start(group, self.targets.values(), self._served.group)

    def _buffered(self) -> None:
        self._loops.work.ring()

    async def find_leaders(self) -> None:
        self._loops.leads_source = await leaders_of(
            self._route.source, list(self.targets), self._loops.leads_source, self._route.name
        )

    async def append_loop(self, group: asyncio.TaskGroup, broker: int) -> None:
        raise AssertionError("the transaction appends at every broker")

    async def _prepare(self, fetched: Collection[Fetched]) -> None:
        """Learn the origins of records in transactions: other flows write to the source in transactions too."""
        if self._origins is not None and any(_has_transactions(one) for one in fetched):
            await self._origins.read_to_end()

    async def learn_origins(self) -> None:
        """Learn where the source's committed records were produced; raises ClientError."""
        if self._origins is not None:
            await self._origins.read_to_end()

    # -- generations of the group --------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        failures = 0
        while True:
            session = self._joined
            if session is None:
                await self._loops.work.wait(_IDLE_SECONDS)
                continue
            try:
                await self._serve(session)
                failures = 0
            except ClientError as error:
                failures += 1
                logger.warning("%s: writing to the target: %s", self._route.name, error)
                await asyncio.sleep(self._route.target.pause(failures))

    async def _serve(self, session: Session) -> None:
        """Write until the group rebalances; raises ClientError if another mirror has taken over, or the target does not respond."""
        number = session.share.number
        async with TransactionalProducer(
            self._route.target, self._transactional_id(number), timeout_ms=TRANSACTION_TIMEOUT_MS, linger_seconds=0
        ) as producer:
            await producer.init_transactions()
            if number == 0:
                await self._abort_orphans(session.share.members)
            self._serve_as(session)
            try:
                while self._joined is session:
                    if any(target.copy.has_appends(monotonic_ms()) for target in self.targets.values()):
                        await self._transaction(producer, session)
                    else:
                        await self._loops.work.wait(_IDLE_SECONDS)
            finally:
                self._serve_as(None)

    def _serve_as(self, session: Session | None) -> None:
        self._served = session
        for target in self.targets.values():
            target.copy.place_again()
        self._loops.changed.ring()

    def _transactional_id(self, number: int) -> str:
        return f"{self._writing.id_prefix}.{number}"

    async def _abort_orphans(self, members: int) -> None:
        """Abort the transactions of mirrors that have left: the group has no member with their numbers."""
        ids = [self._transactional_id(number) for number in range(members, members + _ORPHANS_MAX)]
        for name, outcome in (await fence_producers(self._route.target, ids)).items():
            is_unknown = isinstance(outcome, Refused) and outcome.code is ErrorCode.transactional_id_not_found
            if isinstance(outcome, ClientError) and not is_unknown:
                logger.info("%s: the transaction of %s times out: %s", self._route.name, name, outcome)

    # -- one transaction -----------------------------------------------------------------------------------------------------

    async def _transaction(self, producer: TransactionalProducer, session: Session) -> None:
        """Append, and commit; after a failure abort, and fetch again what was appended. Raises ClientError if the producer is unusable."""
        begun: list[Target[TransactionalCopy]] = []
        try:
            await producer.begin()
            await _Filling(self, producer, session, begun).run()
            await self._record(producer, session, begun)
            await _commit(producer)
        except ClientError as error:
            logger.info("%s: a transaction is aborted: %s", self._route.name, error)
            await producer.abort()
            await asyncio.sleep(self._route.target.pause(1))
        else:
            for target in begun:
                target.copy.committed()
                target.latency.appended(target.copy.newest_timestamp, wall_ms())
        finally:
            for target in begun:
                target.copy.rolled_back()
            self._loops.room.ring()

    async def _record(self, producer: TransactionalProducer, session: Session, begun: Targets) -> None:
        """Record what was appended and the source's offsets, in the transaction."""
        offsets = {}
        for target in begun:
            if not target.copy.takes_part:
                raise MustAbort(
                    f"partition {target.assignment.source} is no longer copied, and has batches in the transaction"
                )
            if target.copy.is_split:
                logger.warning(
                    "%s: a transaction of %s is split: it has been incomplete for %d s",
                    self._route.name, target.assignment.source, SPLIT_AFTER_MS // 1000,
                )  # fmt: skip
            written, position = target.copy.to_record()
            for key, value in encode_written(target.assignment.as_copy, written):
                await producer.send(self._log.topic, value, key=key, partition=0)
            offsets[target.assignment.target] = Committed(position, metadata=metadata_of(target.assignment))
        await producer.flush()
        await producer.send_offsets(offsets, session.group)

    def is_ending(self, session: Session) -> bool:
        """Whether the transactions of this generation end."""
        return self._joined is not session

    def appendable(self, *, is_ending: bool) -> Iterable[tuple[Target[TransactionalCopy], Outgoing]]:
        """The next batch of every partition that has one."""
        now = monotonic_ms()
        for target in self.targets.values():
            out = target.copy.next_append(now, is_ending=is_ending)
            if out is not None:
                yield target, out

    async def append(self, producer: TransactionalProducer, target: Target[TransactionalCopy], out: Outgoing) -> None:
        """Append one batch; raises ClientError, after which the transaction must be aborted."""
        try:
            delivery = await producer.send_batch(target.assignment.target, out.data)
            place = await delivery.place()
            if place.offset < 0:
                raise MustAbort(f"the offset of a batch for {target.assignment.target} is unknown")
        except ClientError as error:
            cause = error.__cause__ or error
            is_too_large = isinstance(cause, Refused) and cause.code in _TOO_LARGE
            target.copy.append_failed(out, monotonic_ms(), is_too_large=is_too_large)
            raise
        target.copy.appended(out, place.offset)
        self._loops.room.ring()

    @property
    def transaction_ms(self) -> int:
        """The duration of a transaction."""
        return self._writing.settings.transaction_ms

    async def wait_for_work(self, seconds: float) -> None:
        """Wait until something may be appended, or a batch has been."""
        await self._loops.work.wait(seconds)

    def ring(self) -> None:
        """Wake the transaction."""
        self._loops.work.ring()


class _Filling:
    """The appends of one transaction, one batch of each partition at a time; `begun` receives the partitions that take part."""

    def __init__(
        self,
        copier: TransactionalCopier,
        producer: TransactionalProducer,
        session: Session,
        begun: list[Target[TransactionalCopy]],
    ) -> None:
        self._copier = copier
        self._producer = producer
        self._session = session
        self._begun = begun
        self._appends: set[asyncio.Task[None]] = set()
        self._bytes = 0
        self._failure: ClientError | None = None
        self._since = monotonic_ms()

    async def run(self) -> None:
        """Append until the transaction can be committed; raises ClientError if an append failed."""
        try:
            while not self._is_over():
                self._start_appends()
                await self._copier.wait_for_work(self._wait_seconds())
        finally:
            for append in self._appends:
                append.cancel()
            if self._appends:
                await asyncio.wait(self._appends)
        if self._failure is not None:
            raise self._failure

    @property
    def _age_ms(self) -> int:
        return monotonic_ms() - self._since

    def _is_ending(self) -> bool:
        is_due = self._age_ms >= self._copier.transaction_ms or self._bytes >= TRANSACTION_BYTES_MAX
        return is_due or self._copier.is_ending(self._session)

    def _is_over(self) -> bool:
        if self._failure is not None:
            return True
        if self._appends or not self._is_ending():
            return False
        split = [target.copy for target in self._begun if target.copy.is_split]
        now = monotonic_ms()
        return not split or (self._age_ms >= SPLIT_AFTER_MS and not any(copy.has_appends(now) for copy in split))

    def _wait_seconds(self) -> float:
        left = self._copier.transaction_ms - self._age_ms
        return max(left, 1) / 1000 if left > 0 else _IDLE_SECONDS

    def _start_appends(self) -> None:
        for target, out in self._copier.appendable(is_ending=self._is_ending()):
            if target not in self._begun:
                self._begun.append(target)
            self._bytes += len(out.data)
            append = asyncio.get_running_loop().create_task(self._append(target, out))
            self._appends.add(append)
            append.add_done_callback(self._appends.discard)

    async def _append(self, target: Target[TransactionalCopy], out: Outgoing) -> None:
        try:
            await self._copier.append(self._producer, target, out)
        except ClientError as error:
            self._failure = self._failure or error
        finally:
            # After this task is done, so that the transaction no longer counts it.
            asyncio.get_running_loop().call_soon(self._copier.ring)


async def _commit(producer: TransactionalProducer) -> None:
    """Commit; the outcome is known afterwards."""
    while True:
        with suppress(OutcomeUnknown):
            await producer.commit()
            return


def _has_transactions(fetched: Fetched) -> bool:
    return any(header.is_transactional and not header.is_control for _, header in batches(fetched.records))
