"""Settings that hold placement constraints."""

from collections.abc import Mapping
from typing import Final

from isthmus_model.constraints import parse_constraints

from isthmus_broker.core.config.values import ConfigRefused, Value

DEFAULT_CONSTRAINT_KEYS: Final = ("isthmus.log.placement.constraints", "confluent.log.placement.constraints")
"""The broker setting that new topics get their constraints from, and its alias."""


def default_constraints(values: Mapping[str, Value]) -> str | None:
    """The broker's default constraints for new topics, if any."""
    texts = [text for key in DEFAULT_CONSTRAINT_KEYS if isinstance(text := values[key], str) and text]
    return texts[0] if texts else None


class ConstraintsText:
    """Validates a setting with placement constraints; an empty text means none."""

    def check(self, name: str, value: Value) -> None:
        if isinstance(value, str) and value:
            try:
                parse_constraints(value)
            except ValueError as error:
                raise ConfigRefused(str(error)) from None

    @property
    def text(self) -> str:
        return "placement constraints as JSON"
