"""Internal topics of streams applications: created once at a time, with the error of a creation kept until it is tried again."""

import asyncio
from typing import Any, cast

from isthmus_broker.core.group.streams.records import KeyValue, TopicInfo
from isthmus_broker.edge.controller import streams_topics
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable
from isthmus_broker.edge.controller.streams_topics import StreamsTopics
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse

RETRY_MS = 1_000


class Controller:
    """Creates topics when it is released."""

    def __init__(self, errors: dict[str, tuple[ErrorCode, str | None]] | None = None, *, is_there: bool = True) -> None:
        self.requests: list[Any] = []
        self.released = asyncio.Event()
        self._errors = errors or {}
        self._is_there = is_there

    async def send(self, request: Any) -> Any:
        self.requests.append(request)
        await self.released.wait()
        if not self._is_there:
            raise ControllerUnreachable("no controller")
        results = []
        for topic in request.topics:
            code, message = self._errors.get(topic.name, (ErrorCode.none, None))
            results.append(
                entity(
                    CreatableTopicResult,
                    name=topic.name,
                    topic_id=None,
                    error_code=code,
                    error_message=message,
                    configs=None,
                )
            )
        return entity(CreateTopicsResponse, throttle_time=NO_THROTTLE, topics=tuple(results))

    @property
    def names(self) -> list[list[str]]:
        return [[topic.name for topic in request.topics] for request in self.requests]


class Site:
    """The topics of one node, and its clock."""

    def __init__(self, controller: Controller) -> None:
        self.now_ms = 0
        self.controller = controller
        self.topics = StreamsTopics(cast(ControllerChannel, controller), lambda: MonotonicMs(self.now_ms))

    def create(self, *names: str) -> None:
        self.topics.create([TopicInfo(name, 3, 0, ()) for name in names], RETRY_MS)

    async def release(self) -> None:
        self.controller.released.set()
        for _ in range(5):
            await asyncio.sleep(0)


def test_a_topic_is_created_as_the_application_describes_it() -> None:
    async def scenario() -> None:
        site = Site(Controller())
        info = TopicInfo("log", 5, 2, (KeyValue("cleanup.policy", "compact"),))
        site.topics.create([info, TopicInfo("r", 3, 0, ())], RETRY_MS)
        await site.release()
        log, repartition = site.controller.requests[0].topics
        assert (log.name, log.num_partitions, log.replication_factor) == ("log", 5, 2)
        assert [(each.name, each.value) for each in log.configs] == [("cleanup.policy", "compact")]
        assert (repartition.replication_factor, repartition.configs) == (-1, ())
        assert site.topics.errors(["log", "r"]) == {}

    asyncio.run(scenario())


def test_a_topic_is_created_once_at_a_time() -> None:
    async def scenario() -> None:
        site = Site(Controller())
        site.create("a", "b")
        await asyncio.sleep(0)
        site.create("b", "c")
        site.create("a")
        await asyncio.sleep(0)
        assert site.controller.names == [["a", "b"], ["c"]]
        await site.release()
        site.create("a")
        await site.release()
        assert site.controller.names[2:] == [["a"]]

    asyncio.run(scenario())


def test_an_error_is_kept_until_the_creation_is_tried_again() -> None:
    async def scenario() -> None:
        errors = {"a": (ErrorCode.invalid_config, "no such setting"), "b": (ErrorCode.invalid_replication_factor, None)}
        site = Site(Controller(errors))
        site.create("a", "b", "c")
        await site.release()
        reported = {"a": "no such setting", "b": "invalid_replication_factor"}
        assert site.topics.errors(["c", "b", "a"]) == reported
        site.now_ms += RETRY_MS - 1
        site.create("a", "b", "c")
        await site.release()
        assert site.controller.names[1:] == [["c"]]
        site.now_ms += 1
        assert site.topics.errors(["a", "b"]) == {}
        site.create("a", "b")
        await site.release()
        assert site.controller.names[2:] == [["a", "b"]]

    asyncio.run(scenario())


def test_without_a_controller_the_reason_is_reported() -> None:
    async def scenario() -> None:
        site = Site(Controller(is_there=False))
        site.create("a")
        await site.release()
        assert site.topics.errors(["a"]) == {"a": "no controller"}

    asyncio.run(scenario())


def test_the_oldest_errors_are_dropped_beyond_the_bound(monkeypatch: Any) -> None:
    async def scenario() -> None:
        site = Site(Controller(dict.fromkeys("abc", (ErrorCode.invalid_config, "bad"))))
        for name in "abc":
            site.create(name)
        await site.release()
        assert list(site.topics.errors("abc")) == ["b", "c"]

    monkeypatch.setattr(streams_topics, "ERRORS_MAX", 2)
    asyncio.run(scenario())
