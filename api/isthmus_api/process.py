"""One process of the control plane: its parts, background work, and the listener."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aiohttp import web
from isthmus_client.clock import wall_ms
from isthmus_model.addresses import Address
from prometheus_client import CollectorRegistry
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from isthmus_api.app import application
from isthmus_api.clusters.clients import Clusters
from isthmus_api.clusters.lag_feed import LagFeed
from isthmus_api.clusters.probes import Probes
from isthmus_api.clusters.watcher import Watch
from isthmus_api.console import console_directory
from isthmus_api.events import Hub
from isthmus_api.openapi import document
from isthmus_api.registry import Route
from isthmus_api.request_context import Parts
from isthmus_api.routes import all_routes
from isthmus_api.security.admin_key import AdminKey, admin_key
from isthmus_api.security.authentication import Authenticator
from isthmus_api.store.access import Access
from isthmus_api.store.audit import Audit
from isthmus_api.store.database import default_url, open_database
from isthmus_api.store.inventory import Inventory
from isthmus_api.store.work import Work
from isthmus_api.tasks.runner import Runner

logger = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 2.0
_RESTART_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to listen, and where to keep state."""

    listen: Address
    directory: Path
    store: str | None = None
    console: Path | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A running process."""

    address: Address
    made_key: str | None


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    """Serve within the block. Raises StoreRefused, SQLAlchemyError or OSError when it cannot start."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    engine = await open_database(settings.store or default_url(settings.directory))
    try:
        key = await admin_key(Access(engine), settings.directory)
        routes = all_routes()
        parts = _parts(engine, key, routes)
        try:
            troubles: dict[str, str] = {}
            async with _listening(settings, parts, routes, troubles) as address, _working(parts, troubles):
                yield Running(address, key.made)
        finally:
            parts.clusters.close()
    finally:
        # A partitioned connection may never close.
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_SECONDS):
                await engine.dispose()


def _parts(engine: AsyncEngine, key: AdminKey, routes: list[Route]) -> Parts:
    inventory, work, hub, probes = Inventory(engine), Work(engine), Hub(), Probes(wall_ms)
    clusters = Clusters(inventory, probes)
    lag = LagFeed(inventory, clusters, wall_ms)
    return Parts(
        inventory=inventory,
        audit=Audit(engine),
        work=work,
        clusters=clusters,
        door=Authenticator(Access(engine), key.digest, wall_ms),
        hub=hub,
        lag=lag,
        watch=Watch(inventory, clusters, probes, lag.ring, hub, wall_ms),
        runner=Runner(work, clusters, hub, wall_ms),
        now_ms=wall_ms,
        document=document(routes, version("isthmus")),
    )


@asynccontextmanager
async def _working(parts: Parts, troubles: dict[str, str]) -> AsyncIterator[None]:
    """Run the background work; `troubles` lists what is wrong with it."""
    loops = {"lag feed": parts.lag.run, "watch": parts.watch.run, "tasks": parts.runner.run}
    working = [asyncio.create_task(_again(name, loop, troubles), name=name) for name, loop in loops.items()]
    try:
        yield
    finally:
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def _again(name: str, loop: Callable[[], Coroutine[Any, Any, None]], troubles: dict[str, str]) -> None:
    """Restart the loop after an error: an unavailable store, or a bug, must not end it for good."""
    while True:
        turn = asyncio.create_task(loop())
        try:
            await asyncio.wait({turn}, timeout=_RESTART_SECONDS)
            if not turn.done():
                troubles.pop(name, None)
            await turn
        except (SQLAlchemyError, OSError) as error:
            logger.warning("%s stopped and restarts: the store is unavailable: %s", name, error)
            troubles[name] = f"{name}: the store is unavailable"
        except Exception as error:
            logger.exception("%s stopped and restarts", name)
            troubles[name] = f"{name}: {error}"
        finally:
            turn.cancel()
            await asyncio.wait({turn}, timeout=_SHUTDOWN_SECONDS)  # its requests to the store end before that closes
        await asyncio.sleep(_RESTART_SECONDS)


@asynccontextmanager
async def _listening(
    settings: Settings, parts: Parts, routes: list[Route], troubles: dict[str, str]
) -> AsyncIterator[Address]:
    console = console_directory(settings.console)
    app = application(parts, routes, console, CollectorRegistry(), lambda: "; ".join(troubles.values()))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, *settings.listen).start()
        host, port = runner.addresses[0][:2]
        yield Address(host, port)
    finally:
        await runner.cleanup()
