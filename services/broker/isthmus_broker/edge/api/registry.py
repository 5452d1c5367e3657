"""Which handler serves which API: the file `api_<key>_<name>.py` does, and is imported when the first such request comes.

A node that starts imports nothing it may never be asked for. An API without a file is not served and not advertised.
"""

import re
from collections.abc import Callable, Coroutine
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey

import isthmus_broker.edge.api
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import Services

Handler = Callable[[Services, Request], Coroutine[None, None, None] | None]
"""Answers at once, keeps the request and answers later, or returns a coroutine that does."""

_FILE_NAME: Final = re.compile(r"api_(\d+)_\w+")
_handlers: Final[dict[int, Handler]] = {}


def handles(api_key: ApiKey) -> Callable[[Handler], Handler]:
    """Register the decorated function for an API, in all the versions that Kafka lists."""

    def register(handler: Handler) -> Handler:
        assert api_key not in _handlers, f"{api_key.name} has two handlers"
        assert api_key in KAFKA_VERSIONS
        _handlers[api_key] = handler
        return handler

    return register


@cache
def _files() -> dict[int, str]:
    package = isthmus_broker.edge.api
    names = (module.name for module in iter_modules(package.__path__))
    return {int(match[1]): f"{package.__name__}.{match[0]}" for name in names if (match := _FILE_NAME.fullmatch(name))}


def served() -> list[int]:
    """The keys of the APIs that have a file."""
    return sorted(_files())


def handler_of(api_key: int) -> Handler | None:
    """The handler, imported now if need be; None for an API that is not served."""
    handler = _handlers.get(api_key)
    if handler is None and api_key in _files():
        import_module(_files()[api_key])
        handler = _handlers[api_key]
    return handler
