"""The web application: authentication, audit of changes, metrics, and one format of errors around every route."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from isthmus_service.http import observation_routes
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from sqlalchemy.exc import SQLAlchemyError

from isthmus_api.console import console_handler
from isthmus_api.limits import BODY_MAX
from isthmus_api.problems import Problem
from isthmus_api.registry import Route, arguments_of, response_of
from isthmus_api.request_context import Call, Parts
from isthmus_api.security.authentication import ANYBODY, TooManyFailures, Unauthenticated, check_origin, remote_of

logger = logging.getLogger(__name__)

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Measures:
    """The metrics of the control plane."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("operation", "status")
        self.requests = Counter("isthmus_api_requests", "Requests served.", labels, registry=registry)
        self.seconds = Histogram(
            "isthmus_api_request_seconds", "Time to serve a request.", ("operation",), registry=registry
        )
        self._listeners = Gauge("isthmus_api_event_readers", "Subscribers to events.", registry=registry)
        self._series = Gauge("isthmus_api_lag_series", "Copies whose lag is kept.", registry=registry)

    def follow(self, parts: Parts) -> None:
        """Gauges, read when metrics are scraped."""
        self._listeners.set_function(lambda: parts.hub.listeners)
        self._series.set_function(lambda: len(parts.lag.ring))


def application(
    parts: Parts, routes: list[Route], console: Path | None, registry: CollectorRegistry, not_ready: Callable[[], str]
) -> web.Application:
    """Build the application."""
    measures = Measures(registry)
    measures.follow(parts)
    app = web.Application(client_max_size=BODY_MAX, middlewares=[_answer_problems, _metrics_are_private(parts)])
    app.on_response_prepare.append(_add_headers)
    for route in routes:
        app.router.add_route(route.method, route.path, _handler(route, parts, measures), name=route.name)
    app.router.add_get("/openapi.json", _document(parts), allow_head=False)
    app.add_routes(observation_routes(registry, not_ready))
    app.router.add_get("/{path:.*}", console_handler(console), allow_head=False)
    return app


def _handler(route: Route, parts: Parts, measures: Measures) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        started = time.perf_counter()
        status = 500
        try:
            response = await _enter(route, parts, request)
            status = response.status
            return response
        except Problem as problem:
            status = problem.status
            raise
        finally:
            measures.requests.labels(route.name, str(status)).inc()
            measures.seconds.labels(route.name).observe(time.perf_counter() - started)

    return handle


async def _enter(route: Route, parts: Parts, request: web.Request) -> web.StreamResponse:
    if route.changes:
        check_origin(request)
    actor = ANYBODY if route.public else await parts.door.actor(request)
    call = Call(parts, request, actor)
    # Signing in needs no authentication and must not fill the audit log: that route writes its own entries.
    return await (_audited(route, call) if route.changes and not route.public else _respond(route, call))


async def _respond(route: Route, call: Call) -> web.StreamResponse:
    arguments = await arguments_of(route, call.request)
    return response_of(route, await route.handler(call, **arguments))


async def _audited(route: Route, call: Call) -> web.StreamResponse:
    """Write the audit entry before the change: if the process ends meanwhile, the entry has no status."""
    audit, remote, target = call.parts.audit, remote_of(call.request), call.request.rel_url.raw_path_qs
    entry = await audit.begin(call.parts.now_ms(), call.actor, remote, route.name, target)
    status, message = 500, "an unexpected error"
    try:
        response = await _respond(route, call)
        status, message = response.status, ""
        return response
    except Problem as problem:
        status, message = problem.status, problem.message
        raise
    except web.HTTPException as refusal:
        status, message = refusal.status, refusal.reason
        raise
    finally:
        await audit.end(entry, status, message)
        logger.info("%s by %s: %s %s", route.name, call.actor, status, message)


def _document(parts: Parts) -> Handler:
    async def document(_request: web.Request) -> web.StreamResponse:
        return web.json_response(dict(parts.document))

    return document


@web.middleware
async def _answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Problem as problem:
        return _problem(problem.code, problem.message, problem.status, _headers_of(problem, request))
    except web.HTTPException as refusal:
        if refusal.status < 400:
            raise
        headers = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else {}
        return _problem(refusal.status, f"HTTP {refusal.status} {refusal.reason}", refusal.status, headers)
    except (SQLAlchemyError, OSError) as error:
        logger.warning("%s %s: the store is unavailable: %s", request.method, request.path, error)
        return _problem(503, "The store is unavailable.", 503, {})
    except Exception:
        logger.exception("%s %s failed", request.method, request.path)
        return _problem(500, "Internal Server Error", 500, {})


def _problem(code: int, message: str, status: int, headers: dict[str, str]) -> web.Response:
    return web.json_response({"error_code": code, "message": message}, status=status, headers=headers)


def _headers_of(problem: Problem, request: web.Request) -> dict[str, str]:
    if isinstance(problem, TooManyFailures):
        return {"Retry-After": str(problem.seconds)}
    if isinstance(problem, Unauthenticated):
        # Browsers show their own dialog for basic authentication; the console has a page instead.
        scheme = "Session" if "Sec-Fetch-Mode" in request.headers else "Basic"
        return {"WWW-Authenticate": f'{scheme} realm="isthmus"'}
    return {}


def _metrics_are_private(parts: Parts) -> Middleware:
    """Metrics name topics and clusters: they need the key unless the request comes from this machine."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/metrics" and not _is_loopback(remote_of(request)):
            await parts.door.actor(request)
        return await handler(request)

    return check


def _is_loopback(remote: str) -> bool:
    try:
        return ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "isthmus"
