"""Steps around every handler. A middleware wraps the handler of an API once, at its first request."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import reduce
from typing import Any

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.security.authorizer import Authorizer
from isthmus_broker.edge.requests.table import Api, Handler
from isthmus_broker.edge.transport.connection import Request

Middleware = Callable[[Api, Handler], Handler]
Refusal = Callable[[Api, Request, ErrorCode], None]


def wrapped(api: Api, handler: Handler, middleware: Sequence[Middleware]) -> Handler:
    """The handler wrapped by all middleware, the first outermost."""
    return reduce(lambda inner, wrap: wrap(api, inner), reversed(middleware), handler)


def counting(requests: "Counter[int]") -> Middleware:
    """Count requests by API key."""

    def wrap(api: Api, handler: Handler) -> Handler:
        key = int(api.key)

        def counted(node: Any, request: Request) -> Coroutine[None, None, None] | None:
            requests[key] += 1
            return handler(node, request)

        return counted

    return wrap


def authorizing(authorizer: Authorizer, refuse: Refusal) -> Middleware:
    """Refuse requests that the authoriser does not allow."""

    def wrap(api: Api, handler: Handler) -> Handler:
        def authorized(node: Any, request: Request) -> Coroutine[None, None, None] | None:
            if authorizer.allows(request.principal, request.connection.peer_host, api.key):
                return handler(node, request)
            refuse(api, request, ErrorCode.cluster_authorization_failed)
            return None

        return authorized

    return wrap
