"""One running flow: its share of the partitions, and the work that its owner does once for all of them.

For a moment two mirrors may both be the owner; work done twice does no harm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from isthmus_client.admin.group_offsets import GroupMetadata
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Topic
from isthmus_client.work_sharing import Share, SharingMember
from isthmus_copying.edge.work_share import follow_share
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import LAG_TOPIC
from isthmus_service.samples import SampleTopic
from isthmus_service.signal import Signal

from isthmus_mirror.core.limits import RESPONSE_SECONDS
from isthmus_mirror.core.origins import skipped_origins
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.edge.group_sync import GroupSync
from isthmus_mirror.edge.mirror_maker_topics import Heartbeats, OffsetSyncs
from isthmus_mirror.edge.origin_log import OriginLog
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.samples import lag_samples
from isthmus_mirror.edge.sequenced_copier import SequencedCopier
from isthmus_mirror.edge.targets import Route
from isthmus_mirror.edge.topic_sync import assigned_partitions, copied_topics, keep_configs, make_copies, sync_configs
from isthmus_mirror.edge.transactional_copier import TransactionalCopier, Writing

logger = logging.getLogger(__name__)

CLIENT_ID: Final = "isthmus-mirror"
PROTOCOL_TYPE: Final = "isthmus-mirror"
OPERATION_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 5.0
"""The interval of checks for created, grown and recreated copies."""
_SYNC_SECONDS: Final = 1.0
_FLUSH_EVERY: Final = 60
"""Rounds between two writes of offset syncs of idle partitions."""
_LAG_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 2.0


class FlowRunner:
    """A flow; `run` works until it is cancelled."""

    def __init__(self, settings: FlowSettings, source: str, target: str, flows: Sequence[FlowSettings]) -> None:
        """`flows` are all that may write to its source or its target."""
        self.settings = settings
        self.source = _client(source)
        self.target = _client(target)
        self._samples = _client(target)
        naming = settings.naming
        self._log = ProgressLog(self.target, naming.progress, settings.syncs_replication_factor)
        route = Route(settings.name, self.source, self.target, settings.read_committed, settings.begin_at_end)
        self._group = f"__isthmus_mirror.{settings.source}.{settings.target}"
        self.copier: SequencedCopier | TransactionalCopier
        if settings.is_transactional:
            self.copier = TransactionalCopier(route, self._writing(flows), self._log, self._origins(flows))
        else:
            self.copier = SequencedCopier(route, self._log)
        self.groups = GroupSync(settings, self.source, self.target, self.copier.targets)
        self._syncs = OffsetSyncs(settings, self.source, self._samples)
        self._heartbeats = Heartbeats(settings, self._samples)
        self._member = SharingMember(self.target, self._group, PROTOCOL_TYPE, settings.topic_choice)
        self._share: Share | None = None
        self._share_changed = Signal()
        self._topics: dict[str, Topic] = {}
        self._problem = "not connected to both clusters yet"

    def _writing(self, flows: Sequence[FlowSettings]) -> Writing:
        settings = self.settings
        return Writing(self._group, settings, lambda topic: skipped_origins(settings, flows, topic))

    def _origins(self, flows: Sequence[FlowSettings]) -> OriginLog | None:
        """Where flows to the source record what they write there, if its topics are theirs."""
        writers = [flow.source for flow in flows if flow.enabled and flow.target == self.settings.source]
        return OriginLog(self.source, writers) if self.settings.naming.identity and writers else None

    def not_ready(self) -> str:
        """Why it cannot copy now; empty if it can."""
        failed = [target for target in self.copier.targets.values() if target.copy.failure]
        if not self.settings.enabled:
            return ""
        if self._problem:
            return f"{self.settings.name}: {self._problem}"
        if self._share is None:
            return f"{self.settings.name}: no share of the work assigned yet"
        if not failed:
            return ""
        first = failed[0]
        others = f"; {len(failed) - 1} more partitions failed" if len(failed) > 1 else ""
        return f"{self.settings.name}: {first.assignment.source} is not copied: {first.copy.failure}{others}"

    @property
    def owns(self) -> bool:
        """Whether this mirror owns the flow."""
        return self._share is not None and self._share.number == 0

    async def run(self) -> None:
        """Run until cancelled. A disabled flow only writes heartbeats."""
        settings = self.settings
        try:
            async with asyncio.TaskGroup() as group:
                if settings.heartbeats_seconds:
                    group.create_task(self._every(settings.heartbeats_seconds, self._heartbeats.beat))
                if settings.enabled:
                    await self._await_clusters()
                    self._start(group)
        finally:
            await self._stop()

    def _start(self, group: asyncio.TaskGroup) -> None:
        settings = self.settings
        group.create_task(self._share_work())
        group.create_task(self.copier.run())
        group.create_task(self._follow_topics())
        group.create_task(self._watch_copies())
        group.create_task(self._write_lag())
        if settings.sync_configs_seconds:
            group.create_task(self._every(settings.sync_configs_seconds, self._sync_configs))
        if settings.checkpoints_seconds:
            group.create_task(self._every(settings.checkpoints_seconds, self._emit_checkpoints))
        if settings.sync_groups_seconds:
            group.create_task(self._every(settings.sync_groups_seconds, self._commit_offsets))
        if settings.emit_offset_syncs:
            group.create_task(self._emit_syncs())

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._member.leave()
        except (ClientError, TimeoutError) as error:
            logger.info("%s: cannot leave the group of mirrors; it will time out: %s", self.settings.name, error)
        for client in (self.source, self.target, self._samples):
            client.close()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat; the next interval retries after a failure, and only the first of several is a warning."""
        failing = False
        while True:
            try:
                await work()
                failing = False
            except ClientError as error:
                logger.log(logging.DEBUG if failing else logging.WARNING, "%s: %s", self.settings.name, error)
                failing = True
            await asyncio.sleep(seconds)

    # -- clusters and shares -------------------------------------------------------------------------------------------------

    async def _await_clusters(self) -> None:
        """Wait until both clusters respond, and check that they are different."""
        logged = ""
        while self._problem:
            try:
                ours, theirs = (await self.source.refresh()).cluster_id, (await self.target.refresh()).cluster_id
                same = ours == theirs and ours is not None
                self._problem = (
                    f"source and target are the same cluster {ours}; a cluster cannot be mirrored to itself"
                    if same
                    else ""
                )
            except ClientError as error:
                self._problem = str(error)
            if self._problem:
                if self._problem != logged:
                    logger.error("%s: %s", self.settings.name, self._problem)
                logged = self._problem
                await asyncio.sleep(_RETRY_SECONDS)

    async def _share_work(self) -> None:
        await follow_share(self._member, self.target, self.settings.name, self._use_share)

    def _use_share(self, share: Share) -> None:
        if isinstance(self.copier, TransactionalCopier):
            self.copier.join(share, GroupMetadata(self._group, self._member.generation, self._member.member_id))
        self._share = share
        self._share_changed.ring()

    # -- topics --------------------------------------------------------------------------------------------------------------

    async def _follow_topics(self) -> None:
        """Refresh the topics periodically, or once if refreshing is disabled."""
        while True:
            try:
                await self._refresh_topics()
                seconds = float(self.settings.refresh_topics_seconds)
            except ClientError as error:
                logger.warning("%s: topics: %s", self.settings.name, error)
                seconds = _RETRY_SECONDS
            if not seconds:
                return
            await asyncio.sleep(seconds)

    async def _refresh_topics(self) -> None:
        self._topics = await copied_topics(self.source, self.settings)
        if self.owns or self._share is None:
            await make_copies(self.source, self.target, self.settings, self._topics)
            await keep_configs(self.source, self.target, self.settings, self._topics)
        self._share_changed.ring()

    async def _watch_copies(self) -> None:
        while True:
            if self._share is not None:
                try:
                    assigned = await assigned_partitions(
                        self.source, self.target, self.settings, self._topics, self._share
                    )
                    self.copier.assign(assigned)
                except ClientError as error:
                    logger.warning("%s: copies: %s", self.settings.name, error)
            await self._share_changed.wait(_WATCH_SECONDS)

    async def _sync_configs(self) -> None:
        if self.owns and self._topics:
            await sync_configs(self.source, self.target, self.settings, self._topics)

    # -- groups --------------------------------------------------------------------------------------------------------------

    async def _emit_checkpoints(self) -> None:
        await self.copier.learn_origins()
        await self.groups.emit()

    async def _commit_offsets(self) -> None:
        await self.copier.learn_origins()
        await self.groups.commit()

    # -- records and lag ----------------------------------------------------------------------------------------------------

    async def _emit_syncs(self) -> None:
        rounds = 0

        async def emit() -> None:
            nonlocal rounds
            rounds += 1
            await self._syncs.emit(list(self.copier.targets.values()), everything=rounds % _FLUSH_EVERY == 0)

        await self._every(_SYNC_SECONDS, emit)

    async def _write_lag(self) -> None:
        """Write samples of lag, with a client of their own so that they do not wait behind appends."""
        topic = SampleTopic(self._samples, LAG_TOPIC)
        while True:
            await asyncio.sleep(_LAG_SECONDS)
            for target in self.copier.targets.values():
                target.latency.measure(target.copy.counters.records, target.copy.counters.bytes, _LAG_SECONDS)
            samples = list(lag_samples(self.settings, self.source, self.target, self.copier.targets))
            if samples:
                await topic.write([(sample.key(), sample.value()) for sample in samples])


def _client(bootstrap: str) -> Client:
    return Client(
        parse_bootstrap(bootstrap),
        client_id=CLIENT_ID,
        operation_seconds=OPERATION_SECONDS,
        response_seconds=RESPONSE_SECONDS,
    )
