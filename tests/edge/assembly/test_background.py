"""Background work of a node that ends with an exception stops the node; samples continue."""

import asyncio
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from isthmus_broker.edge.assembly.lifecycle import BrokerLifecycle
from isthmus_broker.edge.assembly.node import Node
from isthmus_client.admin.topics import NewTopic, create
from isthmus_client.client import Client
from isthmus_service.samples import SampleTopic

from tests.edge.assembly.test_wall_clock import configs

DEADLINE_SECONDS: Final = 60
INTERVAL: Final = {"isthmus.samples.interval.ms": "10"}


def test_a_node_whose_heartbeats_end_with_an_exception_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = RuntimeError("a defect")

    async def beat(_lifecycle: BrokerLifecycle) -> None:
        raise error

    monkeypatch.setattr(BrokerLifecycle, "_beat", beat)

    async def test() -> None:
        node = Node(configs(tmp_path)[0])
        asyncio.get_running_loop().set_exception_handler(node.unhandled)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await node.start()
            assert await node.failed() is error
        await node.stop()

    asyncio.run(test())
    assert "ended unexpectedly" in caplog.text
    assert "a defect" in caplog.text


def test_topics_may_be_created_while_samples_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = asyncio.Event()
    names = (f"topic-{number}" for number in count())

    async def write(topic: SampleTopic, samples: Iterable[Any]) -> None:
        taken = 0
        for _sample in samples:
            await create(topic._client, [NewTopic(next(names), 1, 2)])
            taken += 1
        if taken > 1:
            written.set()

    monkeypatch.setattr(SampleTopic, "write", write)

    async def test() -> None:
        nodes = [Node(config) for config in configs(tmp_path, INTERVAL)]
        await asyncio.gather(*(node.start() for node in nodes))
        async with asyncio.timeout(DEADLINE_SECONDS), Client([nodes[0].own_endpoint()]) as client:
            await create(client, [NewTopic(f"led-{number}", 4, 2) for number in range(2)])
            await written.wait()
        await asyncio.gather(*(node.stop() for node in nodes))

    asyncio.run(test())
    assert "cannot write samples" not in caplog.text


def test_samples_continue_after_an_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    again = asyncio.Event()

    async def write(_topic: SampleTopic, _samples: Iterable[Any]) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a defect")
        again.set()

    monkeypatch.setattr(SampleTopic, "write", write)

    async def test() -> None:
        node = Node(configs(tmp_path, INTERVAL)[0])
        async with asyncio.timeout(DEADLINE_SECONDS):
            await node.start()
            await again.wait()
        await node.stop()

    asyncio.run(test())
