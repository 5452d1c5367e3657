"""The hub of events."""

import asyncio

import pytest
from isthmus_api.events import Event, EventKind, Hub
from isthmus_api.limits import SUBSCRIBER_QUEUE, SUBSCRIBERS_MAX
from isthmus_api.problems import Problem


def test_a_slow_subscriber_receives_the_number_of_lost_events() -> None:
    async def story() -> None:
        hub = Hub()
        with hub.subscription() as slow:
            for number in range(SUBSCRIBER_QUEUE + 3):
                hub.publish(EventKind.TASK, number)
            kept = [await slow.next() for _ in range(SUBSCRIBER_QUEUE)]
            assert [event.data for event in kept] == list(range(SUBSCRIBER_QUEUE))
            assert await slow.next() == Event(0, EventKind.LOST, {"events": 3})
            hub.publish(EventKind.LAG, "on")
            assert await slow.next() == Event(SUBSCRIBER_QUEUE + 4, EventKind.LAG, "on")
        assert hub.listeners == 0

    asyncio.run(story())


def test_readers_are_bounded() -> None:
    hub = Hub()
    open_ones = [hub.subscription() for _ in range(SUBSCRIBERS_MAX)]
    for one in open_ones:
        one.__enter__()
    with pytest.raises(Problem, match="64 subscribers to events are connected"), hub.subscription():
        pass
    open_ones[0].__exit__(None, None, None)
    with hub.subscription():
        assert hub.listeners == SUBSCRIBERS_MAX
