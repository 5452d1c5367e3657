"""Readers for the tables of a topology's file: each checks a value, and names its location in the error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")


class TopologyRefused(Exception):
    """An invalid topology; the message names the part of the file, the error, and what is valid."""


def name_of(value: Any) -> str:
    """The name of a region, a cluster or a link."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise TopologyRefused(
            f"{value!r} is not a name: use lowercase letters, digits and dashes, beginning with a letter"
        )
    return value


def one_of(value: Any, known: Sequence[str], kind: str, where: str) -> str:
    """A region or a cluster that the file describes."""
    if value not in known:
        raise TopologyRefused(f"{where} names {kind} {value!r}; the {kind}s are {', '.join(known)}")
    assert isinstance(value, str)
    return value


def text(given: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    """A text that is not empty."""
    value = given.get(key, default)
    if not isinstance(value, str) or not value:
        raise TopologyRefused(f"{key} of {where} must be a text")
    return value


def texts(given: Any, where: str) -> dict[str, str]:
    """A table of settings, as texts."""
    if not isinstance(given, dict) or not all(isinstance(value, str | int | float) for value in given.values()):
        raise TopologyRefused(f"{where} must be a table of texts, numbers and true or false")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}


def only(given: Any, keys: set[str], where: str) -> None:
    """Refuse unknown keys."""
    if not isinstance(given, dict):
        raise TopologyRefused(f"{where} must be a table")
    unknown = sorted(given.keys() - keys)
    if unknown:
        raise TopologyRefused(f"{where} has {', '.join(unknown)}; known are {', '.join(sorted(keys))}")


def list_of(given: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """A list, empty by default."""
    value = given.get(key, [])
    if not isinstance(value, list):
        raise TopologyRefused(f"{key} of {where} must be a list")
    return value


def number(given: Mapping[str, Any], key: str, where: str, lowest: int, highest: int, default: int) -> int:
    """A whole number."""
    value = given.get(key, default)
    if type(value) is not int or not lowest <= value <= highest:
        raise TopologyRefused(f"{key} of {where} is {value!r}; it must be a number from {lowest} to {highest}")
    return value


def decimal(given: Mapping[str, Any], key: str, where: str, highest: float, lowest: float = 0) -> float:
    """A number, 0 by default."""
    value = given.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
        raise TopologyRefused(f"{key} of {where} is {value!r}; it must be a number from {lowest:g} to {highest:g}")
    return float(value)
