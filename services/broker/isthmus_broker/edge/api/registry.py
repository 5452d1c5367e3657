"""Which handler serves which API. A handler file names its key with `@handles`; an API without one is not advertised."""

from collections.abc import Callable, Coroutine
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey

import isthmus_broker.edge.api
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import Services

Handler = Callable[[Services, Request], Coroutine[None, None, None] | None]
"""Answers at once, keeps the request and answers later, or returns a coroutine that does."""

HANDLERS: Final[dict[int, Handler]] = {}


def handles(api_key: ApiKey) -> Callable[[Handler], Handler]:
    """Register the decorated function for an API, in all the versions that Kafka lists."""

    def register(handler: Handler) -> Handler:
        assert api_key not in HANDLERS, f"{api_key.name} has two handlers"
        assert api_key in KAFKA_VERSIONS
        HANDLERS[api_key] = handler
        return handler

    return register


def load_handlers() -> None:
    """Import every handler file."""
    for module in iter_modules(isthmus_broker.edge.api.__path__):
        if module.name.startswith("api_"):
            import_module(f"{isthmus_broker.edge.api.__name__}.{module.name}")
