"""The tier of this broker: every tiered partition that it leads, at intervals, and what deleted topics have left."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final

from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_model.clocks import Clocks
from isthmus_model.config_resources import ResourceType
from isthmus_model.endpoints import Endpoint
from isthmus_tier.core.segments import Place
from isthmus_tier.edge.metadata_log import MetadataLog, NotRecorded, TopicSettings, WrongPartitionCount
from isthmus_tier.edge.store import StoreError

from isthmus_broker.core.config.definitions.own import (
    METADATA_MIN_ISR,
    METADATA_PARTITIONS,
    METADATA_REPLICATION,
    METADATA_RETENTION,
)
from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.topic_config import resolve_topic
from isthmus_broker.core.config.values import Value
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.image import Topic
from isthmus_broker.core.tier.copying import is_tiered
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.tier.counts import TierCounts
from isthmus_broker.edge.tier.partition_tier import PartitionTier
from isthmus_broker.edge.tier.segment_copy import Destination

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_UNFINISHED_MS: Final = 24 * 3600 * 1000


class Tier:
    """Started when clients are served: for the metadata it is a client of its own broker."""

    def __init__(
        self, config: Callable[[], NodeConfig], replicas: ReplicaManager, destination: Destination, clocks: Clocks
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._destination = destination
        self._clocks = clocks
        self._threads = ThreadPoolExecutor(
            config().settings.remote_log_manager_copier_thread_pool_size, thread_name_prefix="tier"
        )
        self._runs: dict[Place, asyncio.Task[bool]] = {}
        self._doomed: set[Place] = set()
        """Partitions that must leave nothing: their topics were deleted, or are not tiered any more."""
        self._failing: set[Place] = set()
        self._main: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.counts = TierCounts()

    def start(self, endpoint: Endpoint, on_fault: Callable[[BaseException], None]) -> None:
        """Start; `on_fault` stops the node if the metadata topic cannot be used."""
        self._main = asyncio.get_running_loop().create_task(self._run(endpoint, on_fault))

    def stop(self) -> None:
        """End what is under way; a later start continues it."""
        self._destination.give_up.set()
        for task in (*self._runs.values(), *([self._main] if self._main is not None else [])):
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def apply(self, changes: Changes) -> None:
        """Delete what a topic has in the tier that was deleted, or gives it up; the last leader of each partition does."""
        before = len(self._doomed)
        for topic_id in changes.topics_deleted:
            topic = changes.before.topics.by_id[topic_id]
            if self._was_tiered(changes, topic.name):
                self._doomed.update(self._led_of(topic))
        for resource in changes.configs:
            changed = changes.after.topics.named(resource.name) if resource.type == ResourceType.TOPIC else None
            if changed is not None and self._was_tiered(changes, changed.name):
                config = self._replicas.topic_config(changed.name)
                if not is_tiered(changed.name, config) and config.remote_log_delete_on_disable:
                    self._doomed.update(self._led_of(changed))
        if len(self._doomed) > before or changes.topics_created or changes.configs:
            self._changed.set()

    def _was_tiered(self, changes: Changes, topic: str) -> bool:
        before = changes.before.config(ResourceType.TOPIC, topic)
        return is_tiered(topic, resolve_topic(before, self._config().topic_defaults))

    def _led_of(self, topic: Topic) -> Iterator[Place]:
        node_id = self._config().node_id
        return (Place(topic.name, topic.id, index) for index, one in topic.partitions.items() if one.leader == node_id)

    # -- inside --------------------------------------------------------------------------------------------------------------

    async def _run(self, endpoint: Endpoint, on_fault: Callable[[BaseException], None]) -> None:
        await self._discard_unfinished()
        is_refused = False
        while not is_refused:
            try:
                async with Client([endpoint], client_id="isthmus-tier") as client:
                    metadata = MetadataLog(client, topic_settings(self._config()))
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(metadata.run())
                        tasks.create_task(self._visit_all(metadata))
            except* WrongPartitionCount as wrong:
                is_refused = True
                on_fault(wrong.exceptions[0])
            except* ClientError as failures:
                logger.warning("tiered storage: %s; retrying", failures.exceptions[0])
            except* Exception:
                logger.exception("unexpected error in tiered storage; retrying")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _discard_unfinished(self) -> None:
        """Delete the unfinished objects that interrupted copies have left; no copy takes a day."""
        before_ms = self._clocks.wall() - _UNFINISHED_MS
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._threads, self._destination.store.discard_unfinished, before_ms
            )
        except StoreError as error:
            logger.warning("cannot look for interrupted copies; trying again at the next start: %s", error)

    async def _visit_all(self, metadata: MetadataLog) -> None:
        followed: set[Place] = set()
        while True:
            self._changed.clear()
            led = {place: one for one in self._replicas.partitions() if (place := self._place_of(one)) is not None}
            places = led.keys() | self._doomed
            metadata.forget(followed - places)
            for place in self.counts.partitions.keys() - led.keys():
                del self.counts.partitions[place]
            metadata.follow(places)
            followed = set(places)
            for place in places:
                self._visit(metadata, place, led.get(place))
            interval = self._config().settings.remote_log_manager_task_interval_ms / 1000
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), interval)

    def _place_of(self, partition: Partition) -> Place | None:
        """The place of a partition that is led here and tiered."""
        if not partition.is_led_here or partition.log is None or not is_tiered(partition.topic, partition.log.config):
            return None
        return Place(partition.topic, partition.topic_id, partition.index)

    def _visit(self, metadata: MetadataLog, place: Place, partition: Partition | None) -> None:
        """Begin a run, unless the last one is still under way."""
        if place in self._runs:
            return
        tier = PartitionTier(
            self._config().node_id, place, metadata, self._destination, self._threads, self._clocks, self.counts
        )
        is_doomed = place in self._doomed
        work: Callable[[], Coroutine[Any, Any, None]] = tier.delete_all
        if not is_doomed:
            assert partition is not None
            work = partial(tier.run, partition, lambda: self._copies(place, partition))
        run = self._runs[place] = asyncio.get_running_loop().create_task(self._attempt(place, work))
        run.add_done_callback(lambda run: self._ended(place, run, was_doomed=is_doomed))

    def _copies(self, place: Place, partition: Partition) -> bool:
        log = partition.log
        return place not in self._doomed and log is not None and not log.config.remote_log_copy_disable

    async def _attempt(self, place: Place, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Whether it succeeded. A failure is logged once, until it works again."""
        try:
            await work()
        except (StoreError, NotRecorded, OSError) as error:
            if place not in self._failing:
                logger.warning("%s-%d: %s; trying again at every interval", place.topic, place.partition, error)
            self._failing.add(place)
            return False
        except Exception:
            # A defect here must not stop the node, which serves clients without its tier.
            logger.exception("%s-%d: unexpected error in tiered storage", place.topic, place.partition)
            return False
        self._failing.discard(place)
        return True

    def _ended(self, place: Place, run: asyncio.Task[bool], *, was_doomed: bool) -> None:
        del self._runs[place]
        if was_doomed and not run.cancelled() and run.result():
            self._doomed.discard(place)
            logger.info("nothing of %s-%d is left in the tier", place.topic, place.partition)
        elif not was_doomed and place in self._doomed:
            self._changed.set()


def topic_settings(config: NodeConfig) -> TopicSettings:
    """With which the metadata topic is created."""
    values = config.values
    return TopicSettings(
        partitions=_number(values, METADATA_PARTITIONS),
        replication_factor=_number(values, METADATA_REPLICATION),
        min_in_sync=_number(values, METADATA_MIN_ISR),
        retention_ms=_number(values, METADATA_RETENTION),
    )


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
