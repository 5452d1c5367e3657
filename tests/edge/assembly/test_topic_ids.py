"""A log that has lost its topic id gets it back: otherwise the next topic of that name could take over its records."""

import asyncio
from pathlib import Path
from typing import Final

from isthmus_broker.edge.assembly.node import Node
from isthmus_client.admin.topics import NewTopic, create
from isthmus_client.client import Client

from tests.edge.assembly.test_wall_clock import configs

DEADLINE_SECONDS: Final = 60


def test_a_lost_topic_id_is_recorded_again(tmp_path: Path) -> None:
    config = configs(tmp_path)[0]
    metadata = tmp_path / "1" / "t-0" / "partition.metadata"

    async def run(*topics: NewTopic) -> None:
        node = Node(config)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await node.start()
            async with Client([node.own_endpoint()]) as client:
                await create(client, topics)
            while not metadata.exists():  # noqa: ASYNC110 - the node writes it
                await asyncio.sleep(0.01)
        await node.stop()

    asyncio.run(run(NewTopic("t", 1, 1)))
    first = metadata.read_bytes()
    metadata.unlink()
    asyncio.run(run())
    assert metadata.read_bytes() == first
