"""A broker is fenced when its heartbeats' connection has closed and its listener refuses connections, and not otherwise."""

import asyncio
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import pytest
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.schema import BrokerEndpoint, RegisterBrokerRecord
from isthmus_broker.edge.controller.liveness import BrokerLiveness
from isthmus_broker.edge.transport.connection import Connection
from isthmus_model.addresses import Address, parse_address

from tests.ports import free_ports

EPOCH: Final = 11
NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Eye:
    """Liveness over one registered broker, and the brokers that it fenced."""

    def __init__(
        self, port: int, *, fenced: bool = False, others: Mapping[str, str] = NONE, listener: str | None = "PLAINTEXT"
    ) -> None:
        """`others` are advertised before the inter-broker listener: NAME to HOST:PORT."""
        addresses = {name: parse_address(address) for name, address in others.items()}
        addresses["PLAINTEXT"] = Address("127.0.0.1", port)
        broker = RegisterBrokerRecord(
            broker_id=4,
            incarnation_id=None,
            broker_epoch=EPOCH,
            endpoints=tuple(
                BrokerEndpoint(name=name, host=address.host, port=address.port, security_protocol=0)
                for name, address in addresses.items()
            ),
            features=(),
            rack=None,
            fenced=fenced,
        )
        image = ClusterImage(brokers={4: broker})
        self.fenced: list[tuple[int, int]] = []
        self.liveness = BrokerLiveness(lambda: image, listener, self._fence)

    async def _fence(self, broker_id: int, epoch: int) -> None:
        self.fenced.append((broker_id, epoch))

    async def settle(self) -> list[tuple[int, int]]:
        """The brokers fenced once all probes have ended."""
        others = asyncio.all_tasks() - {cast("asyncio.Task[Any]", asyncio.current_task())}
        await asyncio.gather(*others)
        return self.fenced


class FromPeer:
    """A connection that has an identity and a peer."""

    def __init__(self, peer_host: str) -> None:
        self.peer_host = peer_host


def connection(peer_host: str = "127.0.0.1") -> Connection:
    return cast(Connection, FromPeer(peer_host))


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


@pytest.mark.parametrize("listener", ["PLAINTEXT", None])
@pytest.mark.parametrize("peer_host", ["127.0.0.1", "192.0.2.7"])
def test_a_broker_that_advertises_localhost_first_is_not_fenced_while_it_listens(
    listener: str | None, peer_host: str
) -> None:
    """The first address was tried when the controller had no inter-broker listener: on another machine than the broker it refused."""

    async def test() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        (unused,) = free_ports(1)
        port = server.sockets[0].getsockname()[1]
        eye = Eye(port, others={"EXTERNAL": f"localhost:{unused}"}, listener=listener)
        heartbeats = connection(peer_host)
        eye.liveness.record_heartbeat(4, EPOCH, heartbeats)
        eye.liveness.closed(heartbeats)
        assert await eye.settle() == []
        eye.liveness.probe_all(except_for=1)
        assert await eye.settle() == []
        server.close()
        await server.wait_closed()

    run(test())


@pytest.mark.parametrize(("peer_host", "is_fenced"), [("127.0.0.1", True), ("192.0.2.7", False)])
def test_without_an_inter_broker_listener_only_addresses_that_mean_the_broker_are_tried(
    peer_host: str, is_fenced: bool
) -> None:
    """A loopback address means the controller's own machine, unless the broker's heartbeats came from it."""

    async def test() -> None:
        eye = Eye(*free_ports(1), listener=None)
        heartbeats = connection(peer_host)
        eye.liveness.record_heartbeat(4, EPOCH, heartbeats)
        eye.liveness.closed(heartbeats)
        assert await eye.settle() == ([(4, EPOCH)] if is_fenced else [])

    run(test())
