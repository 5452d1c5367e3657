"""One link of a worker: check its source, copy its partitions, report its state.

Every worker copies its share of the partitions. Reports, tasks and the end of a promotion are the owner's; for a moment two workers may
both be the owner and do the same twice, which changes nothing.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from isthmus_client.admin import topics
from isthmus_client.admin.links import report_link
from isthmus_client.admin.mirrors import alter_mirrors, refusal
from isthmus_client.append_mirrored import progress
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError, RequestTimedOut
from isthmus_client.metadata import TopicPartition
from isthmus_client.work_sharing import Share
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import DescribedTask, LinkError, LinkState, LinkTask, TaskState
from isthmus_wire.extensions.mirrors import DescribedMirror, MirrorAction, MirrorState, PartitionProgress

from isthmus_linker.core.group_offsets import is_drained
from isthmus_linker.core.limits import RESPONSE_SECONDS
from isthmus_linker.core.partition import Failure
from isthmus_linker.core.reachability import Health, SourceReachability
from isthmus_linker.core.source_topic import SourceTopic, SourceWatch
from isthmus_linker.edge.budget import Budget
from isthmus_linker.edge.copier import LinkCopier
from isthmus_linker.edge.offset_sync import extents, sync_group_offsets
from isthmus_linker.edge.outcome import FINE, INTERNAL_ERROR, Outcome
from isthmus_linker.edge.plan import LinkPlan
from isthmus_linker.edge.topic_sync import create_mirrors, sync_topic_configs

logger = logging.getLogger(__name__)

CLIENT_ID: Final = "isthmus-linker"
"""The client id in both clusters; mirror topics accept new partitions from this client only."""
OPERATION_SECONDS: Final = 5.0
"""The timeout of one operation with all of its retries."""
_RECHECK_MS: Final = 1_000
"""The interval of checks after a failure; at most one failure counts per `availability.check.ms`."""
_REPORT_SECONDS: Final = 2.0
"""The interval of reports, and of checks of the source's topics."""
_CREATE_SECONDS: Final = 10.0
_UNKNOWN_TOPIC: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})


class LinkRunner:
    """Runs a link's share on this worker; `update` gives it the link's current description and the share."""

    def __init__(self, plan: LinkPlan, share: Share, destination: Client, budget: Budget) -> None:
        self.plan = plan
        self.reachability = SourceReachability()
        self.outcomes: dict[LinkTask, Outcome] = {}
        self.source = Client(
            parse_bootstrap(plan.settings.bootstrap),
            client_id=CLIENT_ID,
            operation_seconds=OPERATION_SECONDS,
            response_seconds=RESPONSE_SECONDS,
        )
        self.copier = LinkCopier(plan.name, plan.link_id, self.source, destination, budget, self.reachability)
        self._share = share
        self._destination = destination
        self._watches: dict[str, SourceWatch] = {}

    @property
    def owns(self) -> bool:
        """Whether this worker owns the link and does the work that is done once per link."""
        return self._share.holds(str(self.plan.link_id))

    def update(self, plan: LinkPlan, share: Share) -> None:
        """Apply the link's current description."""
        self.plan, self._share = plan, share
        self.copier.assign(plan.assignments(share) if self.reachability.is_verified else [], plan.settings)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._check_source())
                group.create_task(self.copier.run())
                group.create_task(self._every(lambda: _REPORT_SECONDS, self._report))
                group.create_task(self._every(lambda: self.plan.settings.sync_offsets_ms / 1000, self._sync_offsets))
                group.create_task(self._every(lambda: self.plan.settings.sync_configs_ms / 1000, self._sync_configs))
                group.create_task(self._every(lambda: _CREATE_SECONDS, self._create_mirrors))
        finally:
            self.source.close()

    async def _every(self, seconds: Callable[[], float], work: Callable[[], Awaitable[None]]) -> None:
        """Repeat; a failed attempt is logged, and the next interval tries again."""
        while True:
            try:
                await work()
            except ClientError as error:
                logger.warning("link %s: %s", self.plan.name, error)
            await asyncio.sleep(seconds())

    # -- the source ----------------------------------------------------------------------------------------------------------

    async def _check_source(self) -> None:
        counted_ms = -self.plan.settings.availability_check_ms
        while True:
            period = self.plan.settings.availability_check_ms
            failed = await self._try_source()
            if failed is None:
                await asyncio.sleep(period / 1000)
                continue
            if monotonic_ms() - counted_ms >= period:
                counted_ms = monotonic_ms()
                self.reachability.check_failed(*failed, self.plan.settings.availability_failures)
                logger.warning("link %s: the source is unreachable: %s", self.plan.name, failed[1])
            await asyncio.sleep(min(period, _RECHECK_MS) / 1000)

    async def _try_source(self) -> tuple[LinkError, str] | None:
        """The error if the source did not respond, else None."""
        try:
            view = await self.source.refresh({mirror.source_topic for mirror in self.plan.watched})
        except ClientError as error:
            return await self._link_error(error), str(error)
        expected = self.plan.source_cluster_id
        if expected and view.cluster_id != expected:
            self.reachability.wrong_cluster(f"the source is cluster {view.cluster_id}; the link is to {expected}")
            return None
        was_verified = self.reachability.is_verified
        self.reachability.check_succeeded()
        if not was_verified:
            self.update(self.plan, self._share)
        return None

    async def _link_error(self, error: ClientError) -> LinkError:
        if isinstance(error, RequestTimedOut):
            return LinkError.TIMEOUT_ERROR
        loop = asyncio.get_running_loop()
        for endpoint in parse_bootstrap(self.plan.settings.bootstrap):
            try:
                await loop.getaddrinfo(endpoint.host, endpoint.port)
            except socket.gaierror:
                continue
            return LinkError.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR
        return LinkError.UNRESOLVABLE_BOOTSTRAP_ERROR

    @property
    def _state(self) -> LinkState:
        return LinkState.PAUSED if self.plan.settings.paused else self.reachability.health.state

    # -- reports -------------------------------------------------------------------------------------------------------------

    async def _report(self) -> None:
        """Report failed topics, the link and its mirror topics; finish promotions. Link and topics are reported by one decision: the
        source's state may change while one request is in flight."""
        await self._report_failures()
        if not self.owns:
            return
        self.reachability.record_leaderless(self._leaderless())
        health = self.reachability.health
        await self._report_link(health)
        await self._report_mirrors(health)
        if self._state is LinkState.ACTIVE and self.reachability.is_verified:
            await self._check_topics()
            await self._finish_promotions()

    async def _report_failures(self) -> None:
        """The failed partitions of this worker: each ends the mirroring of its topic."""
        failures = {
            partition.topic: target.copy.failure
            for partition, target in self.copier.targets.items()
            if target.copy.failure is not None
        }
        for topic, failure in failures.items():
            await self._fail(topic, failure)

    async def _fail(self, topic: str, failure: Failure) -> None:
        logger.error("link %s: mirror topic %s failed: %s: %s", self.plan.name, topic, failure.error, failure.message)
        results = await alter_mirrors(
            self._destination, MirrorAction.FAIL, [topic], error=failure.error, message=failure.message
        )
        for altered in results.values():
            if (refused := refusal(altered)) is not None:
                logger.warning("link %s: %s", self.plan.name, refused)

    def _leaderless(self) -> list[str]:
        """Partitions of copied topics that have no leader at the source."""
        view = self.source.view
        return [
            str(TopicPartition(mirror.source_topic, index))
            for mirror in self.plan.copied
            if (topic := view.topics.get(mirror.source_topic)) is not None
            for index, partition in topic.partitions.items()
            if partition.leader not in view.brokers
        ]

    async def _report_link(self, health: Health) -> None:
        """Report the link if anything differs from the destination's state."""
        tasks = self._tasks(health)
        reported = Health(LinkState(self.plan.state), LinkError(self.plan.error), self.plan.error_message)
        if (health == reported or self.plan.settings.paused) and set(tasks) == set(self.plan.tasks):
            return
        await report_link(self._destination, self.plan.link_id, health.state, health.error, health.message, tasks)

    def _tasks(self, health: Health) -> list[DescribedTask]:
        settings = self.plan.settings
        return [
            self._task(LinkTask.CONSUMER_OFFSET_SYNC, health, is_on=settings.sync_offsets),
            self._task(LinkTask.TOPIC_CONFIGS_SYNC, health, is_on=True),
            self._task(LinkTask.AUTO_CREATE_MIRROR, health, is_on=settings.create_mirrors),
        ]

    def _task(self, task: LinkTask, health: Health, *, is_on: bool) -> DescribedTask:
        outcome = self.outcomes.get(task, FINE) if is_on else FINE
        state = TaskState.NOT_CONFIGURED
        if is_on:
            link_state = LinkState.PAUSED if self.plan.settings.paused else health.state
            state = _TASK_STATES.get(link_state, TaskState.ACTIVE if outcome == FINE else TaskState.IN_ERROR)
        return DescribedTask(name=task, state=state, error=outcome.error, error_message=outcome.message)

    async def _report_mirrors(self, health: Health) -> None:
        """The mirror topics whose state does not follow from the link's."""
        if self.plan.settings.paused or not self.reachability.may_report_mirrors:
            return
        action = health.mirror_action
        if action is not None and (names := self.plan.in_state(_CHANGED_BY[action])):
            await alter_mirrors(self._destination, action, names)

    # -- topics --------------------------------------------------------------------------------------------------------------

    async def _check_topics(self) -> None:
        watched = self.plan.watched
        view = await self.source.refresh({mirror.source_topic for mirror in watched})
        self._watches = {m.topic: self._watches.get(m.topic) or SourceWatch() for m in watched}
        for mirror in watched:
            if view.refused.get(mirror.source_topic, ErrorCode.unknown_topic_id) not in _UNKNOWN_TOPIC:
                continue  # unknown for now
            topic = view.topics.get(mirror.source_topic)
            current = None if topic is None else SourceTopic(topic.topic_id, len(topic.partitions))
            mirrored = SourceTopic(mirror.source_topic_id, mirror.partitions)
            verdict = self._watches[mirror.topic].check(
                current, mirrored, monotonic_ms(), self.plan.settings.retry_timeout_ms
            )
            if verdict.failure is not None:
                await self._fail(mirror.topic, verdict.failure)
            elif verdict.grow_to is not None:
                await self._grow(mirror.topic, verdict.grow_to)

    async def _grow(self, topic: str, partitions: int) -> None:
        logger.info(
            "link %s: mirror topic %s grows to %d partitions, like its source", self.plan.name, topic, partitions
        )
        refused = (await topics.create_partitions(self._destination, {topic: partitions}))[topic]
        if refused is not None:
            logger.warning("link %s: %s", self.plan.name, refused)

    async def _finish_promotions(self) -> None:
        pending = [mirror for mirror in self.plan.mirrors if mirror.state == MirrorState.PENDING_STOPPED]
        drained = [mirror for mirror in pending if await self._has_drained(mirror)]
        if not drained:
            return
        names = {mirror.source_topic: mirror.topic for mirror in drained}
        outcomes = [await sync_topic_configs(self.source, self._destination, self.plan.settings, names)]
        if self.plan.settings.sync_offsets:
            outcomes.append(await sync_group_offsets(self.source, self._destination, self.plan.settings, names))
        for outcome in outcomes:
            if outcome != FINE:  # logged only: one group or config must not delay the promotion
                logger.warning("link %s: last sync before a promotion: %s: %s", self.plan.name, *outcome)
        results = await alter_mirrors(self._destination, MirrorAction.FINISH_PROMOTION, list(names.values()))
        for altered in results.values():
            refused = refusal(altered)
            if refused is not None:
                logger.warning("link %s: %s", self.plan.name, refused)
            else:
                logger.info("link %s: topic %s is promoted and accepts writes", self.plan.name, altered.topic)

    async def _has_drained(self, mirror: DescribedMirror) -> bool:
        """Whether every in-sync replica of the copy has all records that the source has now."""
        indexes = range(mirror.partitions)
        there = await extents(self.source, [TopicPartition(mirror.source_topic, i) for i in indexes])
        copies = await progress(self._destination, [TopicPartition(mirror.topic, i) for i in indexes])
        return all(
            (extent := there.get(TopicPartition(mirror.source_topic, i))) is not None
            and isinstance(copy := copies[TopicPartition(mirror.topic, i)], PartitionProgress)
            and is_drained(extent, copy.high_watermark)
            for i in indexes
        )

    # -- tasks ---------------------------------------------------------------------------------------------------------------

    async def _sync_offsets(self) -> None:
        settings = self.plan.settings
        if settings.sync_offsets:
            await self._run_task(
                LinkTask.CONSUMER_OFFSET_SYNC,
                lambda: sync_group_offsets(self.source, self._destination, settings, self._mirror_names()),
            )

    async def _sync_configs(self) -> None:
        await self._run_task(
            LinkTask.TOPIC_CONFIGS_SYNC,
            lambda: sync_topic_configs(self.source, self._destination, self.plan.settings, self._mirror_names()),
        )

    async def _create_mirrors(self) -> None:
        settings = self.plan.settings
        if settings.create_mirrors:
            await self._run_task(
                LinkTask.AUTO_CREATE_MIRROR,
                lambda: create_mirrors(self.source, self._destination, settings, self.plan.name),
            )

    def _mirror_names(self) -> dict[str, str]:
        """By the source topic's name."""
        return {mirror.source_topic: mirror.topic for mirror in self.plan.copied}

    async def _run_task(self, task: LinkTask, work: Callable[[], Awaitable[Outcome]]) -> None:
        if not self.owns or not self.reachability.is_verified or self._state is not LinkState.ACTIVE:
            return
        try:
            self.outcomes[task] = await work()
        except ClientError as error:
            self.outcomes[task] = Outcome(INTERNAL_ERROR, str(error))


_CHANGED_BY: Final = {
    MirrorAction.SOURCE_LOST: MirrorState.ACTIVE,
    MirrorAction.SOURCE_FOUND: MirrorState.SOURCE_UNAVAILABLE,
}
_TASK_STATES: Final = {
    LinkState.PAUSED: TaskState.LINK_PAUSED,
    LinkState.UNAVAILABLE: TaskState.LINK_UNAVAILABLE,
    LinkState.FAILED: TaskState.LINK_FAILED,
}
