"""Live events, as server-sent events."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from isthmus_api.events import Event, Subscription
from isthmus_api.limits import HEARTBEAT_SECONDS
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call

routes = Routes("Events", "/api/v1")
_STREAM = "text/event-stream"


@routes.get("/events", content_type=_STREAM)
async def stream_events(call: Call) -> web.StreamResponse:
    """Stream events about topology, lag and tasks; a comment is sent when there are none."""
    response = web.StreamResponse(headers={"Content-Type": _STREAM, "X-Accel-Buffering": "no"})
    with call.parts.hub.subscription() as subscription:
        await response.prepare(call.request)
        document = await call.parts.watch.document()
        await response.write(_line("topology", 0, document.model_dump(mode="json")))
        try:
            while True:
                await response.write(await _next(subscription))
        except ConnectionError:
            return response  # the subscriber has disconnected


async def _next(subscription: Subscription) -> bytes:
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            event: Event = await subscription.next()
    except TimeoutError:
        return b": still here\n\n"
    return _line(event.kind, event.number, event.data)


def _line(kind: str, number: int, data: object) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
