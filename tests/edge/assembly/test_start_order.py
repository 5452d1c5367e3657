"""A broker accepts connections before it is unfenced, as in Kafka: clients come then, and a probe of the controller must not be refused."""

import asyncio
from pathlib import Path

import pytest
from isthmus_broker.edge.assembly.lifecycle import BrokerLifecycle
from isthmus_broker.edge.assembly.node import Node

from tests.edge.assembly.test_wall_clock import configs


def test_a_broker_listens_before_it_is_unfenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configs(tmp_path)[0]
    listener = config.listeners.of_brokers[0]
    connected = []
    serve = BrokerLifecycle.serve

    async def connect_and_serve(lifecycle: BrokerLifecycle) -> None:
        _, writer = await asyncio.open_connection(listener.host, listener.port)
        writer.close()
        connected.append(listener.port)
        await serve(lifecycle)

    monkeypatch.setattr(BrokerLifecycle, "serve", connect_and_serve)

    async def test() -> None:
        node = Node(config)
        async with asyncio.timeout(60):
            await node.start()
        await node.stop()

    asyncio.run(test())
    assert connected == [listener.port]
