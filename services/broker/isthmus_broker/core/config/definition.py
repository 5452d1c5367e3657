"""One configuration as data, and a set of configurations that parses property maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from isthmus_broker.core.config.validators import ListOf, Validator
from isthmus_broker.core.config.values import ConfigRefused, Type, Value, parse, render


class Importance(Enum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Change(Enum):
    """Whether a broker configuration may change at run time, and for which brokers (KIP-226)."""

    AT_START = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Required(Enum):
    """In place of a default: the setting is required."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    type: Type
    default: Value | Required
    validator: Validator | None
    importance: Importance
    change: Change = Change.AT_START
    doc: str = ""
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        return self.type is Type.PASSWORD

    @property
    def default_value(self) -> Value:
        return None if isinstance(self.default, Required) else self.default

    @property
    def default_text(self) -> str | None:
        return render(self.default_value, self.type)

    def parse(self, text: str) -> Value:
        """The typed value; ConfigRefused if it is invalid. Duplicates are removed from a list."""
        value = self.read(text)
        if isinstance(value, tuple) and isinstance(self.validator, ListOf):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    def read(self, text: str) -> Value:
        """The typed value, without validation."""
        default = self.default_value
        classes = (default,) if self.type is Type.CLASS and isinstance(default, str) else ()
        return parse(self.name, text, self.type, classes)


class Definitions(Mapping[str, Definition]):
    """Definitions by name, ordered by name."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        ordered = sorted(definitions, key=lambda definition: definition.name)
        self._by_name = {definition.name: definition for definition in ordered}
        assert len(self._by_name) == len(ordered), "a name is defined once"

    def __getitem__(self, name: str) -> Definition:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """The typed value of every definition: the given one, else the default. Undefined names are skipped."""
        missing = [d.name for d in self.values() if d.default is REQUIRED and d.name not in texts]
        if missing:
            raise ConfigRefused(f'Missing required configuration "{missing[0]}" which has no default value.')
        return {
            name: definition.parse(texts[name]) if name in texts else definition.default_value
            for name, definition in self.items()
        }
