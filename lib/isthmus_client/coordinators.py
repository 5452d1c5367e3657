"""What has a coordinator, and the lookup of coordinators."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode

from isthmus_client.connection import Connection
from isthmus_client.errors import NotSupported, ProtocolBroken, Refused
from isthmus_client.metadata import Broker


class TransactionalId(NamedTuple):
    """A transactional id, whose transactions one broker coordinates."""

    name: str

    def __str__(self) -> str:
        return f"transactional id {self.name}"


Coordinated = str | TransactionalId
"""A group by its id, or a transactional id."""


class _KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


_SINCE: Final = {_KeyType.GROUP: 0, _KeyType.TRANSACTION: 1}
_MANY_SINCE: Final = 4


def describe(key: Coordinated) -> str:
    """The group or transactional id, for messages."""
    return f"group {key}" if isinstance(key, str) else str(key)


async def find_coordinators(
    connection: Connection, keys: Sequence[Coordinated]
) -> Mapping[Coordinated, Broker | Refused]:
    """Look up the coordinator of each at a broker: an older broker takes one per request."""
    coordinators: dict[Coordinated, Broker | Refused] = {}
    for kind in _KeyType:
        of_kind = [key for key in keys if _type_of(key) is kind]
        if not of_kind:
            continue
        try:
            coordinators |= await _find(connection, kind, of_kind, _MANY_SINCE)
        except NotSupported:
            for key in of_kind:
                coordinators |= await _find(connection, kind, [key], _SINCE[kind])
    return coordinators


async def _find(
    connection: Connection, kind: _KeyType, keys: Sequence[Coordinated], at_least: int
) -> Mapping[Coordinated, Broker | Refused]:
    from isthmus_wire.requests import FindCoordinatorRequest

    by_name = {key if isinstance(key, str) else key.name: key for key in keys}
    request = FindCoordinatorRequest(key=next(iter(by_name)), key_type=kind, coordinator_keys=tuple(by_name))
    response = await connection.request(ApiKey.FIND_COORDINATOR, request, at_least=at_least)
    if not response.coordinators:
        return {keys[0]: _coordinator(keys[0], response, connection)}
    if {one.key for one in response.coordinators} != set(by_name):
        raise ProtocolBroken(f"broker {connection.name} responded with other coordinators than requested")
    return {by_name[one.key]: _coordinator(by_name[one.key], one, connection) for one in response.coordinators}


def _type_of(key: Coordinated) -> _KeyType:
    return _KeyType.GROUP if isinstance(key, str) else _KeyType.TRANSACTION


def _coordinator(key: Coordinated, result: Any, connection: Connection) -> Broker | Refused:
    if result.error_code is not ErrorCode.none:
        return Refused(result.error_code, f"the coordinator of {describe(key)}", result.error_message)
    return Broker(result.node_id, result.host, result.port, security=connection.endpoint.security)
