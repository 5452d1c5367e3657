"""Configuration values: from text to a typed value and back, with Kafka's rules, limits and messages."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from enum import Enum
from typing import assert_never

Value = bool | int | float | str | tuple[str, ...] | None


class Type(Enum):
    """The types of a configuration; the number is the `config_type` of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigRefused(Exception):
    """An invalid configuration. At startup the message is shown; the response to a request is INVALID_CONFIG."""


def refused(name: str, value: object, why: str) -> ConfigRefused:
    return ConfigRefused(f"Invalid value {as_java(value)} for configuration {name}: {why}")


HIDDEN = "[hidden]"
_TRIMMED = "".join(
    chr(code) for code in range(0x21)
)  # the characters that Java's trim removes: control characters and the blank
_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)
MAX_DIGITS = 400  # longer texts are refused for speed; a 64-bit number has 20 characters at most
MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1
_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}


def parse(name: str, text: str, kind: Type, known_classes: tuple[str, ...] = ()) -> Value:
    """The typed value of a text. A class is only a name: Java classes are not loaded."""
    trimmed = text.strip(_TRIMMED)
    match kind:
        case Type.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise refused(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case Type.STRING | Type.PASSWORD:
            return trimmed
        case Type.INT | Type.SHORT | Type.LONG:
            return _parse_integer(name, text, trimmed, kind)
        case Type.DOUBLE:
            return _parse_double(name, text, trimmed)
        case Type.LIST:
            return tuple(_COMMA.split(trimmed)) if trimmed else ()
        case Type.CLASS:
            if trimmed not in known_classes:
                raise refused(name, text, f"Class {text} could not be found.")
            return trimmed
    assert_never(kind)


def _parse_integer(name: str, text: str, trimmed: str, kind: Type) -> int:
    limit = 1 << (_BITS[kind] - 1)
    if _INTEGER.fullmatch(trimmed) and len(trimmed) <= MAX_DIGITS and -limit <= int(trimmed) < limit:
        return int(trimmed)
    raise refused(name, text, f"Not a number of type {kind.name}")


def _parse_double(name: str, text: str, trimmed: str) -> float:
    if not _DOUBLE.fullmatch(trimmed):
        raise refused(name, text, "Not a number of type DOUBLE")
    if trimmed.endswith(("NaN", "Infinity")):
        return float(trimmed)
    return float(trimmed.rstrip("fFdD"))


def render(value: Value, kind: Type) -> str | None:
    """The text that Kafka shows for a typed value; a password is never shown."""
    if value is None:
        return None
    if kind is Type.PASSWORD:
        return HIDDEN
    if isinstance(value, tuple):
        return ",".join(value)
    return as_java(value)


def as_java(value: object) -> str:
    """The value in Java's format, for messages and described configurations."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_as_java(value)
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(value)


def _double_as_java(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Scientific notation with one digit before the point and at least one after it, without a plus sign.
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"
