"""The way to the active controller: here, elsewhere, or nowhere in time."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from isthmus_broker.edge.controller.active_controller import ActiveController
from isthmus_broker.edge.controller.controller import NotController
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable
from isthmus_model.endpoints import Endpoint

from tests.node import free_ports


class Active:
    """This node's controller: not the active one as long as it has no answers."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.is_ready = bool(answers)
        self.asked: list[Any] = []

    async def answer(self, request: Any) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def channel(active: Active, port: int | None = None) -> ControllerChannel:
    place = None if port is None else Endpoint("127.0.0.1", port)
    return ControllerChannel(cast(ActiveController, active), lambda: place)


REQUEST = SimpleNamespace(__api_key__=19)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_this_node_decides_while_it_is_the_active_controller() -> None:
    async def test() -> None:
        active = Active("decided")
        assert await channel(active).ask(REQUEST) == "decided"
        assert active.asked == [REQUEST]

    run(test())


def test_an_outcome_that_was_lost_is_asked_for_again() -> None:
    async def test() -> None:
        active = Active(NotController("lost"), "decided")
        assert await channel(active).ask(REQUEST) == "decided"
        assert active.asked == [REQUEST, REQUEST]

    run(test())


def test_who_waits_is_woken_by_a_new_controller() -> None:
    async def test() -> None:
        active = Active()
        way = channel(active)
        asking = asyncio.get_running_loop().create_task(way.ask(REQUEST))
        await asyncio.sleep(0)
        active.answers, active.is_ready = ["decided"], True
        way.leader_changed()
        assert await asking == "decided"

    run(test())


def test_without_a_leader_in_time_there_is_none() -> None:
    async def test() -> None:
        with pytest.raises(ControllerUnreachable, match="no leader of the quorum is known"):
            await channel(Active()).ask(REQUEST, seconds=0)

    run(test())


def test_a_leader_that_is_not_there_is_none_either() -> None:
    async def test() -> None:
        (port,) = free_ports(1)
        with pytest.raises(ControllerUnreachable, match=r"refused|in time"):
            await channel(Active(), port).ask(REQUEST, seconds=0.2)

    run(test())
