"""Kafka's error codes, and the errors of this library.

WireError                     anything a peer sent that is not the protocol
├── DecodeError               bytes that do not parse as the expected message
└── CorruptBatch              a record batch whose header, checksum or records are wrong
    └── UnknownCompression    a codec number or a compressed body that no codec accepts
"""

from kio.schema.errors import ErrorCode

__all__ = ["CorruptBatch", "DecodeError", "ErrorCode", "UnknownCompression", "WireError", "error_code"]


class WireError(Exception):
    """What a peer sent breaks the protocol."""


class DecodeError(WireError):
    """Bytes that do not parse as the message they claim to be."""


class CorruptBatch(WireError):
    """A record batch that must not be stored or believed."""


class UnknownCompression(CorruptBatch):
    """An undefined codec number, or a body that its codec rejects."""


def error_code(number: int) -> ErrorCode:
    """The code for a number from the wire; a number of a newer Kafka becomes unknown_server_error, as in Kafka's clients."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.unknown_server_error
