"""A broker is fenced when its heartbeats' connection has closed and its listener refuses connections, and not otherwise."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, cast

import pytest
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.schema import BrokerEndpoint, RegisterBrokerRecord
from isthmus_broker.edge.controller.liveness import BrokerLiveness
from isthmus_broker.edge.transport.connection import Connection

from tests.node import free_ports

EPOCH: Final = 11


class Eye:
    """Liveness over one registered broker, and the brokers that it fenced."""

    def __init__(self, port: int, *, fenced: bool = False) -> None:
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0)
        broker = RegisterBrokerRecord(
            broker_id=4,
            incarnation_id=None,
            broker_epoch=EPOCH,
            endpoints=(endpoint,),
            features=(),
            rack=None,
            fenced=fenced,
        )
        image = ClusterImage(brokers={4: broker})
        self.fenced: list[tuple[int, int]] = []
        self.liveness = BrokerLiveness(lambda: image, "PLAINTEXT", self._fence)

    async def _fence(self, broker_id: int, epoch: int) -> None:
        self.fenced.append((broker_id, epoch))

    async def settle(self) -> list[tuple[int, int]]:
        """The brokers fenced once all probes have ended."""
        others = asyncio.all_tasks() - {cast("asyncio.Task[Any]", asyncio.current_task())}
        await asyncio.gather(*others)
        return self.fenced


def connection() -> Connection:
    """Only its identity matters."""
    return cast(Connection, object())


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_a_refused_connection_is_the_end() -> None:
    async def test() -> None:
        eye, heartbeats = Eye(*free_ports(1)), connection()
        eye.liveness.record_heartbeat(4, EPOCH, heartbeats)
        assert await eye.settle() == []
        eye.liveness.closed(heartbeats)
        assert await eye.settle() == [(4, EPOCH)]

    run(test())


def test_a_broker_that_still_listens_may_have_been_cut_off() -> None:
    async def test() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        eye, heartbeats = Eye(server.sockets[0].getsockname()[1]), connection()
        eye.liveness.record_heartbeat(4, EPOCH, heartbeats)
        eye.liveness.closed(heartbeats)
        assert await eye.settle() == []
        server.close()
        await server.wait_closed()

    run(test())


@pytest.mark.parametrize(("epoch", "fenced"), [(EPOCH - 1, False), (EPOCH, True)])
def test_a_registration_that_is_past_says_nothing(epoch: int, fenced: bool) -> None:
    async def test() -> None:
        eye, heartbeats = Eye(*free_ports(1), fenced=fenced), connection()
        eye.liveness.record_heartbeat(4, epoch, heartbeats)
        eye.liveness.closed(heartbeats)
        assert await eye.settle() == []

    run(test())


def test_one_of_two_connections_may_close() -> None:
    async def test() -> None:
        eye, first, second = Eye(*free_ports(1)), connection(), connection()
        eye.liveness.record_heartbeat(4, EPOCH, first)
        eye.liveness.record_heartbeat(4, EPOCH, second)
        eye.liveness.closed(first)
        assert await eye.settle() == []
        eye.liveness.closed(second)
        assert await eye.settle() == [(4, EPOCH)]

    run(test())


def test_a_new_controller_probes_every_other_broker() -> None:
    async def test() -> None:
        eye = Eye(*free_ports(1))
        eye.liveness.probe_all(except_for=4)
        assert await eye.settle() == []
        eye.liveness.probe_all(except_for=1)
        assert await eye.settle() == [(4, EPOCH)]

    run(test())
