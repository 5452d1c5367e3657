"""Creation of the internal topics of Kafka Streams applications, which a streams group's coordinator finds missing (KIP-1071).

A heartbeat does not wait for it: the member learns from a later one that the topics exist, or why they cannot be created.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse

from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable

if TYPE_CHECKING:  # many nodes never coordinate a group
    from isthmus_broker.core.group.streams.records import TopicInfo

logger = logging.getLogger(__name__)

ERRORS_MAX: Final = 1_000
"""Topics whose error is kept; beyond that the oldest are tried again at once."""
_DEFAULT_REPLICAS: Final = -1


class StreamsTopics:
    """Sends creations to the controller, one at a time for each topic, and keeps their errors for a while."""

    def __init__(self, controller: ControllerChannel, monotonic: Callable[[], MonotonicMs]) -> None:
        self._controller = controller
        self._monotonic = monotonic
        self._under_way: set[str] = set()
        self._errors: dict[str, tuple[int, str]] = {}
        """By topic: until when the error is reported, and the error."""

    def create(self, topics: "Sequence[TopicInfo]", retry_ms: int) -> None:
        """Create the topics that are not being created already, and whose last creation has not failed within `retry_ms`."""
        failed = self.errors(topic.name for topic in topics)
        missing = [topic for topic in topics if topic.name not in failed and topic.name not in self._under_way]
        if missing:
            self._under_way.update(topic.name for topic in missing)
            background(self._create(missing, retry_ms))

    def errors(self, topics: Iterable[str]) -> dict[str, str]:
        """Why topics could not be created."""
        now = self._monotonic()
        kept = ((topic, self._errors[topic]) for topic in topics if topic in self._errors)
        return {topic: error for topic, (until_ms, error) in kept if now < until_ms}

    async def _create(self, topics: "list[TopicInfo]", retry_ms: int) -> None:
        entries: Any = tuple(map(_creatable, topics))
        request = CreateTopicsRequest(topics=entries, timeout=NO_THROTTLE, validate_only=False)
        try:
            response: CreateTopicsResponse = await self._controller.send(request)
        except ControllerUnreachable as unreachable:
            failures = dict.fromkeys((topic.name for topic in topics), str(unreachable))
        else:
            failures = {
                str(topic.name): topic.error_message or topic.error_code.name
                for topic in response.topics
                if topic.error_code is not ErrorCode.none
            }
        finally:
            self._under_way.difference_update(topic.name for topic in topics)
        for name, error in failures.items():
            logger.warning("cannot create internal topic %s of a streams application: %s", name, error)
            self._errors.pop(name, None)
            self._errors[name] = (self._monotonic() + retry_ms, error)
        while len(self._errors) > ERRORS_MAX:
            del self._errors[next(iter(self._errors))]


def _creatable(topic: "TopicInfo") -> CreatableTopic:
    configs: Any = tuple(CreatableTopicConfig(name=each.key, value=each.value) for each in topic.topic_configs)
    return entity(
        CreatableTopic,
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _DEFAULT_REPLICAS,
        assignments=(),
        configs=configs,
    )
