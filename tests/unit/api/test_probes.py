"""Probes, and the client that heeds them, against brokers on loopback sockets."""

import asyncio

import pytest
from isthmus_api.clusters.probes import Probes
from isthmus_api.clusters.reachable_client import ReachableClient
from isthmus_client.errors import ConnectionFailed
from isthmus_model.clocks import WallMs
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.headers import RequestHeader
from isthmus_wire.messages import NO_THROTTLE, encode_response
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseBroker

from tests.unit.client.fake_broker import FakeBroker, serving

SECONDS = 60.0
NOBODY = Endpoint("127.0.0.1", 1)


async def changed(probes: Probes) -> Endpoint:
    """The next endpoint whose reachability changes."""
    change: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()

    def notify(address: Endpoint) -> None:
        probes.on_change.remove(notify)
        change.set_result(address)

    probes.on_change.append(notify)
    async with asyncio.timeout(SECONDS):
        return await change


def test_a_stopped_broker_is_unreachable_until_it_listens_again() -> None:
    async def life() -> None:
        probes = Probes(lambda: WallMs(7))
        broker = FakeBroker(lambda header, frame: None)
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        address = Endpoint(*server.sockets[0].getsockname()[:2])
        server.close()
        probes.watch("one", [address])
        assert await changed(probes) == address
        assert probes.is_unreachable(address)
        assert (probes.unreachable[address].responded_ms, "cannot connect" in probes.unreachable[address].why) == (
            7,
            True,
        )
        server = await asyncio.start_server(broker.serve, address.host, address.port)
        assert await changed(probes) == address
        assert not probes.unreachable
        assert {(asked.api_key, asked.api_version) for asked in broker.asked} == {(ApiKey.API_VERSIONS, 0)}
        probes.close()
        server.close()

    asyncio.run(life())


def test_what_no_cluster_has_any_more_is_forgotten() -> None:
    async def life() -> None:
        probes = Probes(lambda: WallMs(0))
        for cluster in ("one", "two"):
            probes.watch(cluster, [NOBODY])
        assert await changed(probes) == NOBODY
        probes.watch("one", [])
        assert list(probes.unreachable) == [NOBODY]
        probes.watch("two", [])
        assert not probes.unreachable
        probes.close()

    asyncio.run(life())


class Pair:
    """Two brokers of one cluster that know each other."""

    def __init__(self) -> None:
        self.brokers = [FakeBroker(self._answer), FakeBroker(self._answer)]

    def _answer(self, header: RequestHeader, frame: bytes) -> bytes:
        response = entity(
            MetadataResponse,
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                entity(
                    MetadataResponseBroker, node_id=number, host=broker.address[0], port=broker.address[1], rack=None
                )
                for number, broker in enumerate(self.brokers)
            ),
            cluster_id="pair",
            controller_id=0,
            topics=(),
            error_code=ErrorCode.none,
        )
        return encode_response(ApiKey.METADATA, header.api_version, response)


def test_unreachable_brokers_are_avoided_and_requests_to_them_fail() -> None:
    async def life() -> None:
        first, second = Pair().brokers
        away: set[Endpoint] = set()
        async with serving(first), serving(second):
            bootstrap = [first.address, second.address]
            async with ReachableClient(
                bootstrap, away.__contains__, client_id="test", operation_seconds=SECONDS
            ) as client:
                away.add(second.address)
                assert {(await client.any_connection()).endpoint for _ in range(20)} == {first.address}
                waited_for = await client.any_connection()
                away.add(first.address)
                client.disconnect(first.address)
                assert waited_for.closed
                with pytest.raises(ConnectionFailed, match="none of its brokers is reachable"):
                    await client.any_connection()
                away.clear()
                assert (await client.any_connection()).endpoint in bootstrap

    asyncio.run(life())
