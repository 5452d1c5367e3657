"""Dispatch: asynchronous handlers, middleware around every handler, and the authorisation of requests."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from isthmus_broker.core.security.authorizer import ALLOW_ALL, Authorizer
from isthmus_broker.core.security.principal import ANONYMOUS, Principal
from isthmus_broker.edge.requests import dispatch
from isthmus_broker.edge.requests.dispatch import Dispatcher
from isthmus_broker.edge.requests.middleware import Middleware
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.requests.table import Api, Handler, Side
from isthmus_broker.edge.transport.connection import Connection, ConnectionRefused, Request
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.headers import decode_request_header, encode_request_header
from isthmus_wire.messages import decode_response, encode_request
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest


class Client(Connection):
    """A connection that records the responses."""

    def __init__(self) -> None:
        self.responses: list[bytes] = []
        self.principal = ANONYMOUS
        self.peer_host = "192.0.2.1"

    def send(self, prefix: bytes, chunks: Any) -> None:
        self.responses.append(b"".join(map(bytes, chunks)))


def request(api: ApiKey, version: int, body: bytes, client: Connection | None = None) -> Request:
    view = memoryview(bytearray(encode_request_header(api, version, 1, "client") + body))
    return Request(client or Client(), decode_request_header(view), view)


def dispatcher(*middleware: Middleware, authorizer: Authorizer = ALLOW_ALL) -> Dispatcher:
    node = SimpleNamespace(authorizer=authorizer)
    return Dispatcher(cast(NodeServices, node), Side.BROKER, middleware)


def test_a_handler_that_runs_later_reads_its_own_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receive buffer is reused as soon as its last frame was passed on."""
    bodies: list[bytes] = []

    async def handler(_node: NodeServices, request: Request) -> None:
        bodies.append(bytes(request.frame[request.header.size :]))

    monkeypatch.setattr(dispatch, "handler_of", lambda _key, _side: handler)

    async def serve() -> None:
        first = request(ApiKey.METADATA, 12, b"first frame")
        buffer = first.frame
        dispatcher().serve(first)
        buffer[:] = bytes(len(buffer))
        await asyncio.sleep(0)

    asyncio.run(serve())
    assert bodies == [b"first frame"]


def test_middleware_sees_every_request_and_its_response_whenever_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a timer, a tracer or a quota needs."""
    events: list[str] = []
    held: list[Request] = []

    def recording(api: Api, handler: Handler) -> Handler:
        def recorded(node: Any, request: Request) -> Coroutine[None, None, None] | None:
            events.append(f"{api.key.name} begins")
            request.on_response = lambda: events.append(f"{api.key.name} ends")
            return handler(node, request)

        return recorded

    async def later(_node: Any, request: Request) -> None:
        request.reply(b"later")

    handlers: dict[int, Any] = {
        ApiKey.HEARTBEAT: lambda _node, request: request.reply(b"at once"),
        ApiKey.METADATA: later,
        ApiKey.FETCH: lambda _node, request: held.append(request),
        ApiKey.PRODUCE: lambda _node, request: request.finish(),
    }
    monkeypatch.setattr(dispatch, "handler_of", lambda key, _side: handlers[key])

    async def serve() -> None:
        served = dispatcher(recording)
        served.serve(request(ApiKey.FETCH, 12, b""))
        served.serve(request(ApiKey.HEARTBEAT, 4, b""))
        served.serve(request(ApiKey.PRODUCE, 9, b""))
        served.serve(request(ApiKey.METADATA, 12, b""))
        await asyncio.sleep(0)
        held[0].reply(b"records")
        assert served.served == {ApiKey.FETCH: 1, ApiKey.HEARTBEAT: 1, ApiKey.PRODUCE: 1, ApiKey.METADATA: 1}

    asyncio.run(serve())
    assert events == [
        "FETCH begins",
        "HEARTBEAT begins",
        "HEARTBEAT ends",
        "PRODUCE begins",
        "PRODUCE ends",
        "METADATA begins",
        "METADATA ends",
        "FETCH ends",
    ]


class DenyAll:
    """An authoriser that allows nothing."""

    def __init__(self) -> None:
        self.attempts: list[tuple[Principal, str, ApiKey]] = []

    def allows(self, principal: Principal, host: str, api: ApiKey) -> bool:
        self.attempts.append((principal, host, api))
        return False


def test_a_request_that_is_not_allowed_gets_the_error_of_its_api() -> None:
    authorizer, client = DenyAll(), Client()
    served = dispatcher(authorizer=authorizer)
    body = encode_request(ApiKey.UNREGISTER_BROKER, 0, entity(UnregisterBrokerRequest, broker_id=1))
    served.serve(request(ApiKey.UNREGISTER_BROKER, 0, body, client))
    heartbeat = entity(HeartbeatRequest, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    served.serve(request(ApiKey.HEARTBEAT, 4, encode_request(ApiKey.HEARTBEAT, 4, heartbeat), client))
    apis = (ApiKey.UNREGISTER_BROKER, ApiKey.HEARTBEAT)
    responses = [
        decode_response(api, version, data, 0)
        for api, version, data in zip(apis, (0, 4), client.responses, strict=True)
    ]
    assert [response.error_code for response in responses] == [ErrorCode.cluster_authorization_failed] * 2
    assert authorizer.attempts == [(ANONYMOUS, "192.0.2.1", api) for api in apis]


def test_where_an_api_has_no_error_for_a_whole_request_the_connection_closes() -> None:
    with pytest.raises(ConnectionRefused, match="User:ANONYMOUS may not send METADATA"):
        dispatcher(authorizer=DenyAll()).serve(request(ApiKey.METADATA, 12, b""))
