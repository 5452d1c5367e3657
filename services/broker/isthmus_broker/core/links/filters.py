"""Validation of settings that hold filters of topics or groups."""

from dataclasses import dataclass

from isthmus_model.filters import form_of, parse_filters

from isthmus_broker.core.config.values import ConfigRefused, Value


@dataclass(frozen=True, slots=True)
class FiltersText:
    """A setting whose value is a JSON object with filters under this key, or empty."""

    key: str

    @property
    def text(self) -> str:
        """The rule in short."""
        return form_of(self.key)

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigRefused for any other JSON."""
        assert isinstance(value, str)
        try:
            parse_filters(value, self.key)
        except ValueError as error:
            raise ConfigRefused(f"Invalid value for configuration {name}: {error}") from None
