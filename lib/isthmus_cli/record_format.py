"""Records as text and back: the format of `isthmus consume`, the lines of `isthmus produce`."""

import base64
import re
from collections.abc import Callable
from typing import Any, Final

from isthmus_client.consumer import ConsumedRecord

_ESCAPES: Final = {"\\n": b"\n", "\\t": b"\t", "\\0": b"\0", "\\\\": b"\\"}
_TOKEN: Final = re.compile(r"%[a-zA-Z%]|\\.")

Part = Callable[[ConsumedRecord], bytes]


def _headers(consumed: ConsumedRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in consumed.record.headers)


_FIELDS: Final[dict[str, Part]] = {
    "%t": lambda consumed: consumed.partition.topic.encode(),
    "%p": lambda consumed: b"%d" % consumed.partition.partition,
    "%o": lambda consumed: b"%d" % consumed.record.offset,
    "%T": lambda consumed: b"%d" % consumed.record.timestamp,
    "%k": lambda consumed: consumed.record.key or b"",
    "%v": lambda consumed: consumed.record.value or b"",
    "%h": _headers,
    "%%": lambda consumed: b"%",
}


def compile_format(text: str) -> Part:
    """A function from a record to bytes; raises ValueError for an unknown token."""
    parts: list[Part] = []
    at = 0
    for token in _TOKEN.finditer(text):
        parts.append(_constant(text[at : token.start()].encode()))
        parts.append(_part(token.group()))
        at = token.end()
    parts.append(_constant(text[at:].encode()))
    return lambda consumed: b"".join(part(consumed) for part in parts)


def _part(token: str) -> Part:
    if token in _FIELDS:
        return _FIELDS[token]
    if token in _ESCAPES:
        return _constant(_ESCAPES[token])
    raise ValueError(f"'{token}' is unknown; known are {' '.join(_FIELDS)} and {' '.join(_ESCAPES)}")


def _constant(value: bytes) -> Part:
    return lambda consumed: value


def as_json(consumed: ConsumedRecord) -> dict[str, Any]:
    """The record for `-o json`; bytes that are not UTF-8 are in base64 under another name."""
    record = consumed.record
    return {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_text("key", record.key),
        **_text("value", record.value),
        "headers": [{"name": name, **_text("value", value)} for name, value in record.headers],
    }


def _text(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def split_line(line: bytes, key_separator: bytes | None, null: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Key and value of a line; raises ValueError for a line without the separator."""
    key: bytes | None = None
    value: bytes | None = line
    if key_separator is not None:
        key, separator, value = line.partition(key_separator)
        if not separator:
            raise ValueError(f"a line without the key separator {key_separator.decode()!r}: {line[:80]!r}")
    if null is not None:
        key = None if key == null else key
        value = None if value == null else value
    return key, value
