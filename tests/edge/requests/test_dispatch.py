"""Handlers that take their time: what the client sends meanwhile is not what they read."""

import asyncio
from typing import Any, cast

import pytest
from isthmus_broker.edge.requests import dispatch
from isthmus_broker.edge.requests.dispatch import Dispatcher
from isthmus_broker.edge.requests.registry import Side
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Connection, Request
from isthmus_wire.apis import ApiKey
from isthmus_wire.headers import decode_request_header, encode_request_header


def test_a_handler_that_runs_later_reads_its_own_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receive buffer is used again as soon as its last frame was handed over."""
    seen: list[bytes] = []

    async def handler(_node: NodeServices, request: Request) -> None:
        seen.append(bytes(request.frame[request.header.size :]))

    def handler_of(_key: int, _side: Side) -> Any:
        return handler

    monkeypatch.setattr(dispatch, "handler_of", handler_of)

    async def serve() -> None:
        buffer = bytearray(encode_request_header(ApiKey.METADATA, 12, 1, "client") + b"asked first")
        view = memoryview(buffer)
        request = Request(cast(Connection, None), decode_request_header(view), view)
        Dispatcher(cast(NodeServices, None), Side.BROKER).serve(request)
        buffer[:] = bytes(len(buffer))
        await asyncio.sleep(0)

    asyncio.run(serve())
    assert seen == [b"asked first"]
