"""Throttles of a run, and their removal in any case: the previous settings are first recorded in a topic of the cluster."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from isthmus_client.admin import configs, topics
from isthmus_client.admin.configs import Change, Operation, Resource
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer
from isthmus_client.requests_by_broker import results
from isthmus_model.config_resources import ResourceType
from isthmus_model.internal_topics import BALANCER_TOPIC
from isthmus_wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_KEY: Final = b"throttles"
_PARTITION: Final = TopicPartition(BALANCER_TOPIC, 0)
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"
Placed = Mapping[tuple[str, int], tuple[int, ...]]
Before = dict[str, dict[str, str | None]]
"""The previous settings of each resource, by `kind/name`; None for a setting that was not set."""


class Throttles:
    """The throttles of one cluster. Call `lift_left_behind` first: a killed run may have left throttles."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def lift_left_behind(self) -> bool:
        """Restore the settings recorded by an unfinished run; returns whether there were any. Raises ClientError."""
        before = await self._read_journal()
        if before is None:
            return False
        logger.warning("removing the throttles that an earlier run left behind")
        await self._restore(before)
        return True

    async def apply(self, placed: Placed, targets: Placed, bytes_per_second: int) -> None:
        """Throttle only the replicas that will move."""
        settings = _settings(placed, targets, bytes_per_second)
        before = await self._now(settings)
        await self._write_journal(before)
        await self._alter(
            {
                resource: [Change(name, Operation.SET, value) for name, value in values.items()]
                for resource, values in settings.items()
            }
        )

    async def lift(self) -> None:
        """Restore the previous settings."""
        before = await self._read_journal()
        if before is not None:
            await self._restore(before)

    async def _restore(self, before: Before) -> None:
        changes: dict[Resource, list[Change]] = {}
        for name, values in before.items():
            kind, _, rest = name.partition("/")
            changes[Resource(ResourceType[kind], rest)] = [
                Change(key, Operation.DELETE) if value is None else Change(key, Operation.SET, value)
                for key, value in values.items()
            ]
        await self._alter(changes)
        await self._write_journal(None)

    async def _alter(self, changes: Mapping[Resource, list[Change]]) -> None:
        """Change settings, also of offline brokers; ignores topics that have been deleted."""
        for resource, failure in (await configs.alter(self._client, changes)).items():
            gone = isinstance(failure, Refused) and failure.code is ErrorCode.unknown_topic_or_partition
            if failure is not None and not gone:
                raise failure
            if gone:
                logger.info("%s was deleted, together with its throttle", resource)

    async def _now(self, settings: Mapping[Resource, Mapping[str, str]]) -> Before:
        before: Before = {}
        for resource, values in (await configs.describe(self._client, list(settings))).items():
            if isinstance(values, ClientError):
                raise values
            current = {config.name: config.value for config in values if config.is_set}
            before[f"{resource.kind.name}/{resource.name}"] = {name: current.get(name) for name in settings[resource]}
        return before

    # -- the journal ---------------------------------------------------------------------------------------------------------

    async def _write_journal(self, before: Before | None) -> None:
        """Write an entry; None (a tombstone) means that there is nothing to restore."""
        new_topic = topics.NewTopic(BALANCER_TOPIC, 1, configs={"cleanup.policy": "compact"})
        refused = (await topics.create(self._client, [new_topic]))[BALANCER_TOPIC]
        if refused is not None and refused.code is not ErrorCode.topic_already_exists:
            raise refused
        async with Producer(self._client) as producer:
            value = None if before is None else json.dumps(before).encode()
            await (await producer.send(BALANCER_TOPIC, value, key=_KEY, partition=0)).place()

    async def _read_journal(self) -> Before | None:
        """Read the newest entry."""
        if BALANCER_TOPIC not in (await self._client.refresh([BALANCER_TOPIC])).topics:
            return None
        end = results(await list_offsets(self._client, {_PARTITION: At.LATEST}))[_PARTITION].offset
        newest: bytes | None = None
        async with Consumer(self._client, reset=At.EARLIEST) as consumer:
            await consumer.assign({_PARTITION: At.EARLIEST})
            while consumer.position(_PARTITION) < end:
                for record in await consumer.poll(1.0):
                    newest = record.record.value
        before: Before | None = None if newest is None else json.loads(newest)
        return before


def _settings(placed: Placed, targets: Placed, bytes_per_second: int) -> dict[Resource, dict[str, str]]:
    """The throttles, as kafka-reassign-partitions sets them: current replicas are senders, new replicas are receivers."""
    rate = str(bytes_per_second)
    brokers: set[int] = set()
    senders: dict[str, list[str]] = defaultdict(list)
    receivers: dict[str, list[str]] = defaultdict(list)
    for (topic, index), target in targets.items():
        added = sorted(set(target) - set(placed[topic, index]))
        if added:
            brokers.update(added, placed[topic, index])
            senders[topic] += [f"{index}:{broker}" for broker in placed[topic, index]]
            receivers[topic] += [f"{index}:{broker}" for broker in added]
    settings = {Resource(ResourceType.BROKER, str(broker)): dict.fromkeys(_RATES, rate) for broker in sorted(brokers)}
    for topic in sorted(senders):
        values = {_LEADERS: ",".join(senders[topic]), _FOLLOWERS: ",".join(receivers[topic])}
        settings[Resource(ResourceType.TOPIC, topic)] = values
    return settings
