"""Requests for partitions whose leader has just been lost wait for new metadata, up to a bound."""

import asyncio
from types import SimpleNamespace
from typing import Any

from isthmus_broker.core.metadata.image import NO_LEADER, ClusterImage
from isthmus_broker.core.replica.lost_leaders import HOLD_MS
from isthmus_broker.edge.replication.delayed_requests import NOTICE_SECONDS, DelayedRequests
from isthmus_client.clock import monotonic_ms


def image(*, fenced: bool) -> ClusterImage:
    broker: Any = SimpleNamespace(fenced=fenced)
    return ClusterImage(brokers={1: broker})


def run(test: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


async def is_over(waiting: "asyncio.Task[None]") -> bool:
    """Whether the wait ends without any event."""
    await asyncio.sleep(10 * NOTICE_SECONDS)
    return waiting.done()


def test_a_request_is_delayed_until_the_leader_is_fenced() -> None:
    async def test() -> None:
        held = DelayedRequests(9, monotonic_ms)
        held.leader_lost(1)
        waiting = asyncio.ensure_future(held.settled(lambda: [1, 2]))
        assert not await is_over(waiting)
        held.metadata_changed(image(fenced=False))
        assert not await is_over(waiting), "something else has changed"
        held.metadata_changed(image(fenced=True))
        await waiting

    run(test)


def test_a_request_is_delayed_until_the_leader_is_reached_again() -> None:
    async def test() -> None:
        held = DelayedRequests(9, monotonic_ms)
        held.leader_lost(1)
        waiting = asyncio.ensure_future(held.settled(lambda: [1]))
        assert not await is_over(waiting)
        held.leader_reached(1)
        await waiting

    run(test)


def test_requests_for_other_leaders_are_not_delayed() -> None:
    async def test() -> None:
        held = DelayedRequests(9, monotonic_ms)
        held.leader_lost(1)
        await held.settled(lambda: [2, 3])
        assert not await is_over(asyncio.ensure_future(held.settled(lambda: [1])))

    run(test)


def test_delays_are_bounded_and_not_repeated_for_the_same_loss() -> None:
    async def test() -> None:
        held = DelayedRequests(9, monotonic_ms)
        loop = asyncio.get_running_loop()
        held.leader_lost(1)
        before = loop.time()
        await held.settled(lambda: [1])
        assert loop.time() - before >= HOLD_MS / 1000 - 0.01
        held.leader_lost(1)
        await held.settled(lambda: [1])
        assert await is_over(asyncio.ensure_future(held.settled(lambda: [1])))

    run(test)


def test_a_leader_that_is_lost_a_moment_after_the_request_delays_it() -> None:
    """The client sees that its connection has ended before this node sees it of its own: the stale response cost librdkafka a second."""

    async def test() -> None:
        held = DelayedRequests(9, monotonic_ms)
        waiting = asyncio.ensure_future(held.settled(lambda: [1]))
        await asyncio.sleep(0)
        held.leader_lost(1)
        assert not await is_over(waiting)
        held.metadata_changed(image(fenced=True))
        await waiting

    run(test)


def test_requests_for_this_nodes_own_partitions_are_not_delayed() -> None:
    async def test() -> None:
        own = asyncio.ensure_future(DelayedRequests(9, monotonic_ms).settled(lambda: [9, NO_LEADER]))
        await asyncio.sleep(0)
        assert own.done()

    run(test)
