"""Filters of links by topic or group name, in Confluent's JSON: a name passes when an entry includes it and none excludes it.

    {"topicFilters": [{"name": "orders", "patternType": "PREFIXED", "filterType": "INCLUDE"}]}

A pattern is a whole name or the beginning of one, so matching takes linear time.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

FILTERS_MAX: Final = 500
"""Entries of one setting; more are refused."""
TOPIC_FILTERS: Final = "topicFilters"
GROUP_FILTERS: Final = "groupFilters"
_ALL: Final = "*"
_FIELDS: Final = {"name", "patternType", "filterType"}
_PATTERNS: Final = ("LITERAL", "PREFIXED")
_KINDS: Final = ("INCLUDE", "EXCLUDE")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name, or the beginning of names; the literal `*` means all."""

    name: str
    is_prefix: bool

    def matches(self, name: str) -> bool:
        return name.startswith(self.name) if self.is_prefix else self.name in (_ALL, name)


@dataclass(frozen=True, slots=True)
class Filters:
    """Nothing is included unless an entry includes it."""

    included: tuple[Pattern, ...] = ()
    excluded: tuple[Pattern, ...] = ()

    def includes(self, name: str) -> bool:
        if any(pattern.matches(name) for pattern in self.excluded):
            return False
        return any(pattern.matches(name) for pattern in self.included)


def form_of(key: str) -> str:
    """The JSON that a setting must have, in short."""
    return f'{{"{key}":[{{"name":...,"patternType":"LITERAL|PREFIXED","filterType":"INCLUDE|EXCLUDE"}}]}}'


def parse_filters(text: str, key: str) -> Filters:
    """The entries under this key; an empty text has none. Raises ValueError."""
    if not text:
        return Filters()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    entries = document[key] if isinstance(document, dict) and set(document) == {key} else None
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise ValueError(f"it must be JSON like {form_of(key)}")
    if len(entries) > FILTERS_MAX:
        raise ValueError(f"it has more than {FILTERS_MAX} filters")
    return Filters(_patterns(entries, "INCLUDE"), _patterns(entries, "EXCLUDE"))


def _is_entry(candidate: object) -> bool:
    if not isinstance(candidate, dict) or set(candidate) != _FIELDS:
        return False
    name = candidate["name"]
    return (
        isinstance(name, str)
        and bool(name)
        and candidate["patternType"] in _PATTERNS
        and candidate["filterType"] in _KINDS
    )


def _patterns(entries: list[dict[str, Any]], kind: str) -> tuple[Pattern, ...]:
    chosen = (entry for entry in entries if entry["filterType"] == kind)
    return tuple(Pattern(entry["name"], entry["patternType"] == "PREFIXED") for entry in chosen)
