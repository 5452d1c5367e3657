"""One configuration as data, and a set of them that parses whole property maps."""

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
    """Whether a broker configuration may change while the broker runs, and for whom (KIP-226)."""

    AT_START = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Required(Enum):
    """The mark, in place of a default, of what must be given."""

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
        """The typed value; ConfigRefused when the type or the validator says no. A list names everything once."""
        value = self.read(text)
        if isinstance(value, tuple) and isinstance(self.validator, ListOf):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    def read(self, text: str) -> Value:
        """The typed value, whether it is valid or not."""
        default = self.default_value
        known = (default,) if self.type is Type.CLASS and isinstance(default, str) else ()
        return parse(self.name, text, self.type, known)


class Definitions(Mapping[str, Definition]):
    """Definitions by name, in order of name."""

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
        """The typed value of every definition: what is given, else the default. Names that are not defined are left out."""
        missing = [d.name for d in self.values() if d.default is REQUIRED and d.name not in texts]
        if missing:
            raise ConfigRefused(f'Missing required configuration "{missing[0]}" which has no default value.')
        return {
            name: definition.parse(texts[name]) if name in texts else definition.default_value
            for name, definition in self.items()
        }
