"""Filters by name in Confluent's JSON: what is included by one entry and excluded by none."""

import json
from dataclasses import dataclass
from typing import Any, Final

_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class _Pattern:
    name: str
    is_prefix: bool

    def matches(self, name: str) -> bool:
        if self.is_prefix:
            return name.startswith(self.name)
        return self.name in (_ALL, name)


@dataclass(frozen=True, slots=True)
class Filters:
    """Nothing is included unless something says so."""

    included: tuple[_Pattern, ...] = ()
    excluded: tuple[_Pattern, ...] = ()

    @classmethod
    def parse(cls, text: str, field: str) -> "Filters":
        """From `{"<field>": [{"name", "patternType", "filterType"}]}`; text that is none of that includes nothing."""
        try:
            entries = json.loads(text)[field] if text else []
        except (ValueError, KeyError, TypeError):
            return cls()
        if not isinstance(entries, list):
            return cls()
        named = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
        return cls(
            tuple(_pattern(entry) for entry in named if _is(entry, "filterType", "INCLUDE")),
            tuple(_pattern(entry) for entry in named if _is(entry, "filterType", "EXCLUDE")),
        )

    def take(self, name: str) -> bool:
        """Whether this name passes."""
        if any(pattern.matches(name) for pattern in self.excluded):
            return False
        return any(pattern.matches(name) for pattern in self.included)


def _pattern(entry: dict[str, Any]) -> _Pattern:
    return _Pattern(entry["name"], _is(entry, "patternType", "PREFIXED"))


def _is(entry: dict[str, Any], field: str, value: str) -> bool:
    return str(entry.get(field, "")).upper() == value
