"""HTTP endpoints of every process: `/metrics` for Prometheus, `/health/live` and `/health/ready` for its supervisor.

Live means that the event loop runs. Ready means that the service reports no reason why it cannot work.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from isthmus_model.addresses import Address
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

NotReady = Callable[[], str]
"""Returns why the service cannot work now; empty if it can."""


def observation_routes(registry: CollectorRegistry, not_ready: NotReady) -> list[web.RouteDef]:
    """The three routes, for a service with an application of its own."""

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def live(_request: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def ready(_request: web.Request) -> web.Response:
        reason = not_ready()
        if reason:
            return web.json_response({"status": "not ready", "reason": reason}, status=503)
        return web.json_response({"status": "ready"})

    return [web.get("/metrics", metrics), web.get("/health/live", live), web.get("/health/ready", ready)]


@asynccontextmanager
async def observed(address: Address, registry: CollectorRegistry, not_ready: NotReady) -> AsyncIterator[int]:
    """Serve the routes while the block runs; yields the port, which port 0 leaves open. Raises OSError if it is in use."""
    application = web.Application()
    application.add_routes(observation_routes(registry, not_ready))
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, *address).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
