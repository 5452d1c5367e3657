"""Filters of links: JSON that says which topics, or which groups, a link takes care of. The form is Confluent's, so its files work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from isthmus_broker.core.config.values import ConfigRefused, Value

FILTERS_MAX: Final = 500
"""Filters of one setting; more are refused."""
_PARTS: Final = {"name", "patternType", "filterType"}
_PATTERNS: Final = ("LITERAL", "PREFIXED")
_KINDS: Final = ("INCLUDE", "EXCLUDE")


@dataclass(frozen=True, slots=True)
class Filters:
    """A setting that holds filters under this key of a JSON object, or is empty."""

    key: str

    @property
    def text(self) -> str:
        """The rule in short."""
        return f'{{"{self.key}":[{{"name":...,"patternType":"LITERAL|PREFIXED","filterType":"INCLUDE|EXCLUDE"}}]}}'

    def check(self, name: str, value: Value) -> None:
        """Raises ConfigRefused for what is no such JSON."""
        assert isinstance(value, str)
        if not value:
            return
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            document = None
        filters = document.get(self.key) if isinstance(document, dict) and set(document) == {self.key} else None
        if not isinstance(filters, list) or not all(_is_filter(one) for one in filters):
            raise ConfigRefused(f"Invalid value for configuration {name}: it must be JSON like {self.text}")
        if len(filters) > FILTERS_MAX:
            raise ConfigRefused(f"Invalid value for configuration {name}: it has more than {FILTERS_MAX} filters")


def _is_filter(candidate: object) -> bool:
    if not isinstance(candidate, dict) or set(candidate) != _PARTS:
        return False
    name = candidate["name"]
    return (
        isinstance(name, str)
        and bool(name)
        and candidate["patternType"] in _PATTERNS
        and candidate["filterType"] in _KINDS
    )
