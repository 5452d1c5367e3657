"""The channel to the active controller: local, remote, or unreachable in time."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from isthmus_broker.edge.controller.active_controller import ActiveController
from isthmus_broker.edge.controller.controller import NotController
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable
from isthmus_broker.edge.quorum.raft_driver import RaftStopped
from isthmus_client.connection import Connection
from isthmus_client.errors import ConnectionFailed
from isthmus_model.endpoints import Endpoint

from tests.ports import free_ports


class Active:
    """This node's controller: not active while it has no responses."""

    def __init__(self, *responses: Any) -> None:
        self.responses = list(responses)
        self.is_ready = bool(responses)
        self.requests: list[Any] = []

    async def decide(self, request: Any) -> Any:
        self.requests.append(request)
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response


def channel(active: Active, port: int | None = None) -> ControllerChannel:
    place = None if port is None else Endpoint("127.0.0.1", port)
    return ControllerChannel(cast(ActiveController, active), lambda: place, timeout_ms=30_000)


REQUEST = SimpleNamespace(__api_key__=19)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_this_node_decides_while_it_is_the_active_controller() -> None:
    async def test() -> None:
        active = Active("decided")
        assert await channel(active).send(REQUEST) == "decided"
        assert active.requests == [REQUEST]

    run(test())


def test_a_request_whose_outcome_was_lost_is_retried() -> None:
    async def test() -> None:
        active = Active(NotController("lost"), "decided")
        assert await channel(active).send(REQUEST) == "decided"
        assert active.requests == [REQUEST, REQUEST]

    run(test())


def test_a_request_that_this_node_can_no_longer_decide_is_retried_until_its_timeout() -> None:
    """The disk of the metadata log is full: the sender must not end with an error that it does not expect."""

    async def test() -> None:
        with pytest.raises(ControllerUnreachable):
            await channel(Active(RaftStopped())).send(REQUEST, seconds=0)

    run(test())


def test_waiting_requests_are_retried_at_a_new_controller() -> None:
    async def test() -> None:
        active = Active()
        way = channel(active)
        asking = asyncio.get_running_loop().create_task(way.send(REQUEST))
        await asyncio.sleep(0)
        active.responses, active.is_ready = ["decided"], True
        way.leader_changed()
        assert await asking == "decided"

    run(test())


def test_without_a_leader_in_time_there_is_none() -> None:
    async def test() -> None:
        with pytest.raises(ControllerUnreachable, match="the leader of the quorum is unknown"):
            await channel(Active()).send(REQUEST, seconds=0)

    run(test())


def test_a_leader_that_is_not_there_is_none_either() -> None:
    async def test() -> None:
        (port,) = free_ports(1)
        with pytest.raises(ControllerUnreachable, match=r"refused|in time"):
            await channel(Active(), port).send(REQUEST, seconds=0.2)

    run(test())


class Unresponsive:
    """A connection whose peer responds to nothing, as one whose host has lost power."""

    opened: ClassVar[list["Unresponsive"]] = []

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.closed = False
        self._lost = asyncio.get_running_loop().create_future()
        self.opened.append(self)

    async def request(self, *_request: Any, **_options: Any) -> Any:
        return await self._lost

    def close(self) -> None:
        self.closed = True
        if not self._lost.done():
            self._lost.set_exception(ConnectionFailed("closed"))


@pytest.fixture
def unresponsive(monkeypatch: pytest.MonkeyPatch) -> list[Unresponsive]:
    async def opened(endpoint: Endpoint, _client_id: str) -> Unresponsive:
        return Unresponsive(endpoint)

    monkeypatch.setattr(Connection, "open", opened)
    monkeypatch.setattr(Unresponsive, "opened", [])
    return Unresponsive.opened


async def await_connections(unresponsive: list[Unresponsive], count: int) -> None:
    async with asyncio.timeout(30):
        while len(unresponsive) < count:  # noqa: ASYNC110 - the channel says nothing of its connections
            await asyncio.sleep(0.001)


def test_a_request_is_sent_again_to_a_node_that_leads_again(unresponsive: list[Unresponsive]) -> None:
    """Its host may have lost power in between: the old connection would stay unresponsive until the request times out."""

    async def test() -> None:
        way = channel(Active(), 9093)
        request = asyncio.get_running_loop().create_task(way.send(REQUEST))
        await await_connections(unresponsive, 1)
        way.leader_changed()
        await await_connections(unresponsive, 2)
        assert [connection.closed for connection in unresponsive] == [True, False]
        request.cancel()

    run(test())


def test_one_attempt_takes_no_longer_than_the_socket_timeout(unresponsive: list[Unresponsive]) -> None:
    async def test() -> None:
        place = Endpoint("127.0.0.1", 9093)
        way = ControllerChannel(cast(ActiveController, Active()), lambda: place, timeout_ms=10)
        request = asyncio.get_running_loop().create_task(way.send(REQUEST, seconds=60))
        await await_connections(unresponsive, 3)
        assert not request.done()
        request.cancel()

    run(test())
