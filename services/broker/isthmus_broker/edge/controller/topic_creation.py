"""Automatic creation of topics: internal ones, and those that a Metadata request names while auto.create.topics.enable is on."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from isthmus_model.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 1.0
"""Upper bound on the wait of a request for a topic that it needs. Later requests of the connection wait as well."""


class TopicCreation:
    """Sends creations to the controller, one at a time for each topic."""

    def __init__(self, controller: ControllerChannel, context: Callable[[], ControllerContext]) -> None:
        self._controller = controller
        self._context = context
        self._under_way: dict[str, asyncio.Task[ErrorCode]] = {}

    async def create(self, name: str) -> ErrorCode:
        """Create the topic with the settings for its kind; a topic that exists meanwhile is no error.

        Without an active controller the creation continues in the background, as in Kafka: the client retries instead of waiting.
        """
        if name not in self._under_way:
            self._under_way[name] = asyncio.get_running_loop().create_task(self._create(name))
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await asyncio.shield(self._under_way[name])
        except TimeoutError:
            return ErrorCode.leader_not_available

    async def _create(self, name: str) -> ErrorCode:
        request = CreateTopicsRequest(topics=(self._new_topic(name),), timeout=NO_THROTTLE, validate_only=False)
        try:
            response: CreateTopicsResponse = await self._controller.send(request)
        except ControllerUnreachable:
            return ErrorCode.leader_not_available
        finally:
            del self._under_way[name]
        (result,) = response.topics
        if result.error_code is ErrorCode.topic_already_exists:
            return ErrorCode.none
        if result.error_code is not ErrorCode.none:
            logger.warning("cannot create topic %s: %s", name, result.error_message or result.error_code.name)
        return result.error_code

    def _new_topic(self, name: str) -> CreatableTopic:
        node = self._context().node
        if name == OFFSETS_TOPIC:
            return _offsets_topic(node)
        if name == TRANSACTIONS_TOPIC:
            return _transactions_topic(node)
        settings = node.settings
        return _topic(name, settings.num_partitions, settings.default_replication_factor, {})


def _offsets_topic(node: NodeConfig) -> CreatableTopic:
    settings = node.settings
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_topic_segment_bytes),
    }
    partitions = settings.offsets_topic_num_partitions
    return _topic(OFFSETS_TOPIC, partitions, settings.offsets_topic_replication_factor, configs)


def _transactions_topic(node: NodeConfig) -> CreatableTopic:
    settings = node.settings
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(settings.transaction_state_log_min_isr),
        "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    partitions = settings.transaction_state_log_num_partitions
    return _topic(TRANSACTIONS_TOPIC, partitions, settings.transaction_state_log_replication_factor, configs)


def _topic(name: str, partitions: int, replicas: int, configs: dict[str, str]) -> CreatableTopic:
    entries: Any = tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items())
    return entity(
        CreatableTopic,
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=entries,
    )
