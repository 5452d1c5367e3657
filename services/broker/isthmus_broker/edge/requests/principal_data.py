"""The principal inside an envelope in the encoding of Kafka's brokers: a version number, then DefaultPrincipalData."""

import struct
from typing import Final

from isthmus_wire.errors import DecodeError
from isthmus_wire.messages import decode_entity
from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from isthmus_broker.core.security.principal import Principal

_VERSION: Final = struct.Struct(">h")


class PrincipalMalformed(Exception):
    """The bytes are not a principal."""


def decode_principal(data: bytes | None) -> Principal:
    """Read a principal; raises PrincipalMalformed."""
    if data is None or len(data) < _VERSION.size or _VERSION.unpack_from(data) != (0,):
        raise PrincipalMalformed
    try:
        principal = decode_entity(DefaultPrincipalData, data, offset=_VERSION.size)
    except DecodeError as error:
        raise PrincipalMalformed from error
    return Principal(principal.type_, principal.name)
