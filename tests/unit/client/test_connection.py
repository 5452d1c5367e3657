"""One connection against a scripted broker."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ConnectionFailed, GaveUp, NotSupported, ProtocolBroken, Refused, RequestTimedOut
from isthmus_client.metadata import Broker
from isthmus_client.pool import Pool
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.headers import RequestHeader
from isthmus_wire.messages import NO_THROTTLE, encode_response
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseBroker

from tests.unit.client.fake_broker import FakeBroker, serving

REQUEST = ListGroupsRequest()


def no_groups(code: ErrorCode = ErrorCode.none) -> Any:
    return entity(ListGroupsResponse, throttle_time=NO_THROTTLE, error_code=code, groups=())


def respond(header: RequestHeader, frame: bytes) -> bytes | None:
    return encode_response(header.api_key, header.api_version, no_groups())


def close(header: RequestHeader, frame: bytes) -> bytes | None:
    return None


async def opened(broker: FakeBroker) -> Connection:
    return await Connection.open(broker.address, "test")


def test_requests_are_pipelined_and_matched_to_responses() -> None:
    async def life() -> None:
        async with serving(FakeBroker(respond)) as broker:
            connection = await opened(broker)
            responses = await asyncio.gather(*(connection.request(ApiKey.LIST_GROUPS, REQUEST) for _ in range(200)))
            assert responses == [no_groups()] * 200
            assert [header.correlation_id for header in broker.asked] == list(range(201))
            assert broker.connections == 1
            connection.close()

    asyncio.run(life())


def test_api_versions_falls_back_to_version_0() -> None:
    async def life() -> None:
        async with serving(FakeBroker(respond, newest_api_versions=2)) as broker:
            connection = await opened(broker)
            assert [header.api_version for header in broker.asked] == [4, 0]
            assert connection.versions.choose(ApiKey.LIST_GROUPS) == 5
            connection.close()

    asyncio.run(life())


def test_requests_of_a_lost_connection_fail() -> None:
    async def life() -> None:
        async with serving(FakeBroker(close)) as broker:
            connection = await opened(broker)
            with pytest.raises(ConnectionFailed, match="closed the connection"):
                await connection.request(ApiKey.LIST_GROUPS, REQUEST)
            assert connection.closed
            with pytest.raises(ConnectionFailed, match="is closed"):
                await connection.request(ApiKey.LIST_GROUPS, REQUEST)

    asyncio.run(life())


def test_an_unresponsive_broker_loses_the_connection() -> None:
    async def life() -> None:
        held = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await held.wait()
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        connection = Connection(Endpoint(*server.sockets[0].getsockname()[:2]), "test")
        await connection.connect()
        with pytest.raises(RequestTimedOut, match="did not respond to LIST_GROUPS within 0 s"):
            await connection.exchange(ApiKey.LIST_GROUPS, 0, (b"",), seconds=0.01)
        assert connection.closed
        silent = Connection(Endpoint(*server.sockets[0].getsockname()[:2]), "test")
        await silent.connect()
        with pytest.raises(RequestTimedOut, match="did not respond to FETCH within 0 s"):
            await silent.exchange(ApiKey.FETCH, 12, (b"",), seconds=3600, silence=0.01)
        assert silent.closed
        pool = Pool("test", response_seconds=0.01)
        with pytest.raises(RequestTimedOut, match="did not respond to API_VERSIONS within 0 s"):
            await pool.get(Endpoint(*server.sockets[0].getsockname()[:2]))
        held.set()
        server.close()
        await server.wait_closed()

    asyncio.run(life())


def test_a_malformed_response_closes_the_connection() -> None:
    async def life() -> None:
        async with serving(FakeBroker(lambda header, frame: b"\x7f")) as broker:
            connection = await opened(broker)
            with pytest.raises(ProtocolBroken, match="sent a malformed response to LIST_GROUPS"):
                await connection.request(ApiKey.LIST_GROUPS, REQUEST)
            assert connection.closed

    asyncio.run(life())


def test_a_request_without_a_common_version_is_not_sent() -> None:
    async def life() -> None:
        async with serving(FakeBroker(respond)) as broker:
            connection = await opened(broker)
            with pytest.raises(NotSupported):
                await connection.request(ApiKey.LIST_GROUPS, REQUEST, at_least=6)
            assert len(broker.asked) == 1
            connection.close()

    asyncio.run(life())


def test_the_pool_reconnects_after_a_loss_and_separates_lanes() -> None:
    async def life() -> None:
        async with serving(FakeBroker(respond)) as broker:
            pool = Pool("test")
            first = await pool.get(broker.address)
            assert await pool.get(broker.address) is first
            assert await pool.get(broker.address, "polls") is not first
            first.close()
            assert await pool.get(broker.address) is not first
            assert broker.connections == 3
            pool.close()

    asyncio.run(life())


def test_an_unreachable_broker_is_not_retried_before_its_backoff() -> None:
    class Late:
        def uniform(self, a: float, b: float, /) -> float:
            return 1e6

    async def life() -> None:
        async with serving(FakeBroker(respond)) as broker:
            address = broker.address
        pool = Pool("test", randomness=Late())
        with pytest.raises(ConnectionFailed, match="Connection refused"):
            await pool.get(address)
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionFailed, match="Connection refused"):
                await pool.get(address)

    asyncio.run(life())


@contextmanager
def unresponsive() -> Iterator[Endpoint]:
    """The address of a frozen broker: the system accepts connections, and nothing responds."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Endpoint(*listening.getsockname()[:2])


def test_another_broker_is_tried_beside_one_that_does_not_respond() -> None:
    async def life() -> None:
        with unresponsive() as frozen:
            async with serving(FakeBroker(lambda header, frame: cluster_of(broker))) as broker:
                client = Client([frozen, broker.address], response_seconds=3600)
                assert (await client.any_connection()).endpoint == broker.address
                client.close()

    asyncio.run(life())


def test_metadata_is_requested_from_another_broker_beside_one_that_does_not_respond() -> None:
    async def life() -> None:
        with unresponsive() as frozen:
            async with serving(FakeBroker(lambda header, frame: cluster_of(broker))) as broker:
                client = Client([frozen, broker.address], response_seconds=3600)
                assert [one.endpoint for one in (await client.refresh()).brokers.values()] == [broker.address]
                client.close()

    asyncio.run(life())


def test_a_broker_that_has_just_timed_out_is_the_last_choice() -> None:
    async def life() -> None:
        async with serving(FakeBroker(respond)) as first, serving(FakeBroker(respond)) as second:
            client = Client([first.address, second.address])
            assert client.endpoints() == [first.address, second.address]
            produces = await client.broker_connection(Broker(1, *first.address[:2]), "produce")
            with pytest.raises(RequestTimedOut):
                await produces.request(ApiKey.LIST_GROUPS, REQUEST, seconds=0.0)
            assert client.endpoints() == [second.address, first.address]
            client.close()

    asyncio.run(life())


def cluster_of(broker: FakeBroker) -> bytes:
    response = entity(
        MetadataResponse,
        throttle_time=NO_THROTTLE,
        brokers=(entity(MetadataResponseBroker, node_id=1, host=broker.address[0], port=broker.address[1]),),
        cluster_id="c",
        controller_id=1,
        topics=(),
        error_code=ErrorCode.none,
    )
    return encode_response(ApiKey.METADATA, 13, response)


def check(response: Any) -> None:
    if response.error_code is not ErrorCode.none:
        raise Refused(response.error_code, "groups")


def test_transient_failures_are_retried() -> None:
    codes = [ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available, ErrorCode.none]

    def script(header: RequestHeader, frame: bytes) -> bytes | None:
        if header.api_key == ApiKey.METADATA:
            return cluster_of(broker)
        return encode_response(ApiKey.LIST_GROUPS, 5, no_groups(codes.pop(0)))

    broker = FakeBroker(script)

    async def life() -> None:
        async with serving(broker), Client([broker.address]) as client:
            response = await client.send_to_any(ApiKey.LIST_GROUPS, REQUEST, check)
            assert response.error_code is ErrorCode.none
            assert codes == []

    asyncio.run(life())


def test_retries_end_at_the_timeout() -> None:
    def script(header: RequestHeader, frame: bytes) -> bytes | None:
        if header.api_key == ApiKey.METADATA:
            return cluster_of(broker)
        return encode_response(ApiKey.LIST_GROUPS, 5, no_groups(ErrorCode.coordinator_load_in_progress))

    broker = FakeBroker(script)

    async def life() -> None:
        async with serving(broker), Client([broker.address], operation_seconds=0.2) as client:
            with pytest.raises(GaveUp, match="groups: coordinator_load_in_progress") as failure:
                await client.send_to_any(ApiKey.LIST_GROUPS, REQUEST, check)
            assert isinstance(failure.value.__cause__, Refused)

    asyncio.run(life())


def test_an_unreachable_bootstrap_fails_at_once() -> None:
    async def life() -> None:
        async with serving(FakeBroker(respond)) as broker:
            address = broker.address
        with pytest.raises(ConnectionFailed, match=r"no broker can be reached: cannot connect to .*Connection refused"):
            async with Client([address]):
                pass

    asyncio.run(life())
