"""One flow at work: its share of the partitions, and what is done once for all of them by the mirror that owns the flow.

Two mirrors that both believe they own it do the same twice, which changes nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Topic
from isthmus_client.work_sharing import Share, SharingMember
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import LAG_TOPIC
from isthmus_service.samples import SampleTopic
from isthmus_service.signal import Signal

from isthmus_mirror.core.limits import RESPONSE_SECONDS
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.edge.copier import FlowCopier
from isthmus_mirror.edge.group_sync import GroupSync
from isthmus_mirror.edge.mirror_maker_topics import Heartbeats, OffsetSyncs
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.samples import lag_samples
from isthmus_mirror.edge.topic_sync import copied_topics, keep_configs, make_copies, sync_configs, wanted_partitions

logger = logging.getLogger(__name__)

CLIENT_ID: Final = "isthmus-mirror"
PROTOCOL_TYPE: Final = "isthmus-mirror"
OPERATION_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 5.0
"""How often it is seen whether copies that are known have changed: made, grown, made anew."""
_SYNC_SECONDS: Final = 1.0
_FLUSH_EVERY: Final = 60
"""Offset syncs of partitions at rest are told every so many rounds."""
_LAG_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 2.0


class FlowRunner:
    """`run` it; it works until it is cancelled."""

    def __init__(self, settings: FlowSettings, source: str, target: str) -> None:
        self.settings = settings
        self.source = _client(source)
        self.target = _client(target)
        self._samples = _client(target)
        naming = settings.naming
        self._log = ProgressLog(self.target, naming.progress, settings.syncs_replication_factor)
        self.copier = FlowCopier(
            settings.name,
            self.source,
            self.target,
            self._log,
            read_committed=settings.read_committed,
            begin_at_end=settings.begin_at_end,
        )
        self.groups = GroupSync(settings, self.source, self.target, self.copier)
        self._syncs = OffsetSyncs(settings, self.source, self._samples)
        self._heartbeats = Heartbeats(settings, self._samples)
        self._member = SharingMember(
            self.target, f"__isthmus_mirror.{settings.source}.{settings.target}", PROTOCOL_TYPE
        )
        self._share: Share | None = None
        self._share_changed = Signal()
        self._topics: dict[str, Topic] = {}
        self._problem = "it has not reached both clusters yet"

    def not_ready(self) -> str:
        """Why it cannot copy now; empty when it can."""
        failed = [target for target in self.copier.targets.values() if target.copy.failure]
        if not self.settings.enabled:
            return ""
        if self._problem:
            return f"{self.settings.name}: {self._problem}"
        if self._share is None:
            return f"{self.settings.name}: it has no share of the work yet"
        if not failed:
            return ""
        first = failed[0]
        others = f", nor {len(failed) - 1} others" if len(failed) > 1 else ""
        return f"{self.settings.name}: {first.wanted.source} is not copied: {first.copy.failure}{others}"

    @property
    def owns(self) -> bool:
        """Whether this mirror does what is done once for the flow."""
        return self._share is not None and self._share.number == 0

    async def run(self) -> None:
        """Until cancelled. A flow that is not enabled has a heartbeat alone."""
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
            group.create_task(self._every(settings.checkpoints_seconds, self.groups.emit))
        if settings.sync_groups_seconds:
            group.create_task(self._every(settings.sync_groups_seconds, self.groups.commit))
        if settings.emit_offset_syncs:
            group.create_task(self._emit_syncs())

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._member.leave()
        except (ClientError, TimeoutError) as error:
            logger.info(
                "%s: the group of mirrors will notice by itself that this one is gone: %s", self.settings.name, error
            )
        for client in (self.source, self.target, self._samples):
            client.close()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """What fails because a cluster cannot be asked is done the next time; the log tells when that begins."""
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
        """Both ends are there, and are two clusters."""
        told = ""
        while self._problem:
            try:
                ours, theirs = (await self.source.refresh()).cluster_id, (await self.target.refresh()).cluster_id
                same = ours == theirs and ours is not None
                self._problem = f"both ends are the cluster {ours}: a cluster is not mirrored to itself" if same else ""
            except ClientError as error:
                self._problem = str(error)
            if self._problem:
                if self._problem != told:
                    logger.error("%s: %s", self.settings.name, self._problem)
                told = self._problem
                await asyncio.sleep(_RETRY_SECONDS)

    async def _share_work(self) -> None:
        """While the group divides anew, a mirror goes on with what it had: work done twice does no harm."""
        failures = 0
        while True:
            try:
                self._share = await self._member.join()
            except ClientError as error:
                failures += 1
                logger.warning(
                    "%s: the target does not say which share is this mirror's: %s", self.settings.name, error
                )
                await asyncio.sleep(self.target.pause(failures))
                continue
            failures = 0
            self._share_changed.ring()
            logger.info("%s: this is mirror %d of %d", self.settings.name, self._share.number + 1, self._share.members)
            await self._member.lost.wait()

    # -- topics --------------------------------------------------------------------------------------------------------------

    async def _follow_topics(self) -> None:
        """With refreshing switched off, topics are looked at once."""
        while True:
            try:
                await self._look_at_topics()
                seconds = float(self.settings.refresh_topics_seconds)
            except ClientError as error:
                logger.warning("%s: topics: %s", self.settings.name, error)
                seconds = _RETRY_SECONDS
            if not seconds:
                return
            await asyncio.sleep(seconds)

    async def _look_at_topics(self) -> None:
        self._topics = await copied_topics(self.source, self.settings)
        if self.owns or self._share is None:
            await make_copies(self.source, self.target, self.settings, self._topics)
            await keep_configs(self.source, self.target, self.settings, self._topics)
        self._share_changed.ring()

    async def _watch_copies(self) -> None:
        while True:
            if self._share is not None:
                try:
                    wanted = await wanted_partitions(self.source, self.target, self.settings, self._topics, self._share)
                    self.copier.assign(wanted)
                except ClientError as error:
                    logger.warning("%s: copies: %s", self.settings.name, error)
            await self._share_changed.wait(_WATCH_SECONDS)

    async def _sync_configs(self) -> None:
        if self.owns and self._topics:
            await sync_configs(self.source, self.target, self.settings, self._topics)

    # -- what is told --------------------------------------------------------------------------------------------------------

    async def _emit_syncs(self) -> None:
        rounds = 0

        async def emit() -> None:
            nonlocal rounds
            rounds += 1
            await self._syncs.emit(list(self.copier.targets.values()), everything=rounds % _FLUSH_EVERY == 0)

        await self._every(_SYNC_SECONDS, emit)

    async def _write_lag(self) -> None:
        """Samples have a client of their own: they are records, and must not wait behind appends."""
        topic = SampleTopic(self._samples, LAG_TOPIC)
        while True:
            await asyncio.sleep(_LAG_SECONDS)
            for target in self.copier.targets.values():
                target.latency.measure(target.copy.counters.records, target.copy.counters.bytes, _LAG_SECONDS)
            samples = list(lag_samples(self.settings, self.source, self.target, self.copier))
            if samples:
                await topic.write((sample.key(), sample.value()) for sample in samples)


def _client(bootstrap: str) -> Client:
    return Client(
        parse_bootstrap(bootstrap),
        client_id=CLIENT_ID,
        operation_seconds=OPERATION_SECONDS,
        response_seconds=RESPONSE_SECONDS,
    )
