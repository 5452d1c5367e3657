"""Which handler serves which API: the file `api_<key>_<name>.py` does, and is imported when the first such request comes.

A node that starts imports nothing it may never be asked for. An API without a file is not served and not advertised. The versions say
which listeners an API is for; where brokers and controllers differ in all but the name, `controller_<key>_<name>.py` serves controllers.
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from isthmus_wire.apis import CONTROLLER_VERSIONS, KAFKA_VERSIONS, OWN_VERSIONS, ApiKey

import isthmus_broker.edge.requests
from isthmus_broker.edge.transport.connection import Request

Handler = Callable[[Any, Request], Coroutine[None, None, None] | None]
"""Is given `Services`, or `NodeServices` on a controller listener. Answers at once, keeps the request and answers later, or returns a
coroutine that does."""


class Side(Enum):
    """Who is talked to by a listener."""

    BROKER = "broker"
    CONTROLLER = "controller"


_OWN_OF_CONTROLLERS: Final = (
    ApiKey.CREATE_LINK,
    ApiKey.ALTER_LINK,
    ApiKey.DELETE_LINK,
    ApiKey.REPORT_LINK,
    ApiKey.CREATE_MIRROR,
    ApiKey.ALTER_MIRRORS,
    ApiKey.RAISE_LEADER_EPOCHS,
)
VERSIONS: Final[Mapping[Side, Mapping[ApiKey, tuple[int, int]]]] = {
    Side.BROKER: {**KAFKA_VERSIONS, **OWN_VERSIONS},
    Side.CONTROLLER: {**CONTROLLER_VERSIONS, **{key: OWN_VERSIONS[key] for key in _OWN_OF_CONTROLLERS}},
}
_FILE_NAME: Final = re.compile(r"(api|controller)_(\d+)_\w+")
_handlers: Final[dict[tuple[str, int], Handler]] = {}  # by the beginning of the file's name, and the key


def handles(api_key: ApiKey) -> Callable[[Handler], Handler]:
    """Register the decorated function for an API, in all the versions that Kafka lists."""
    return _register("api", api_key)


def handles_on_controllers(api_key: ApiKey) -> Callable[[Handler], Handler]:
    """As `handles`, for controller listeners alone."""
    return _register("controller", api_key)


def _register(prefix: str, api_key: ApiKey) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        assert (prefix, api_key) not in _handlers, f"{api_key.name} has two handlers"
        _handlers[prefix, api_key] = handler
        return handler

    return register


@cache
def _files(side: Side) -> dict[int, tuple[str, str]]:
    """Module and the beginning of its name, by API key."""
    package = isthmus_broker.edge.requests
    found: dict[int, tuple[str, str]] = {}
    for name in sorted(module.name for module in iter_modules(package.__path__)):  # controller_... comes after api_...
        match = _FILE_NAME.fullmatch(name)
        if match is not None and int(match[2]) in VERSIONS[side] and match[1] in ("api", side.value):
            found[int(match[2])] = (f"{package.__name__}.{name}", match[1])
    return found


def served(side: Side) -> list[int]:
    """The keys of the APIs that have a file."""
    return sorted(_files(side))


def handler_of(api_key: int, side: Side) -> Handler | None:
    """The handler, imported now if need be; None for an API that is not served."""
    found = _files(side).get(api_key)
    if found is None:
        return None
    module, prefix = found
    handler = _handlers.get((prefix, api_key))
    if handler is None:
        import_module(module)
        handler = _handlers[prefix, api_key]
    return handler
