"""Validation of typed values. `text` is Kafka's own short form of the rule, kept equal to its recording."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from isthmus_broker.core.config.addresses import parse_bootstrap_servers, parse_voters
from isthmus_broker.core.config.values import ConfigRefused, Value, as_java, refused


class Validator(Protocol):
    @property
    def text(self) -> str: ...

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigRefused with Kafka's message if the value does not satisfy the rule."""


@dataclass(frozen=True, slots=True)
class Range:
    low: float
    high: float | None = None

    @property
    def text(self) -> str:
        return f"[{as_java(self.low)},...]" if self.high is None else f"[{as_java(self.low)},...,{as_java(self.high)}]"

    def check(self, name: str, value: Value) -> None:
        if value is None:
            raise refused(name, None, "Value must be non-null")
        assert isinstance(value, int | float)
        if value < self.low:
            raise refused(name, value, f"Value must be at least {as_java(self.low)}")
        if self.high is not None and value > self.high:
            raise refused(name, value, f"Value must be no more than {as_java(self.high)}")


@dataclass(frozen=True, slots=True)
class OneOf:
    choices: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"[{', '.join(self.choices)}]"

    def check(self, name: str, value: Value) -> None:
        if value not in self.choices:
            raise refused(name, value, f"String must be one of: {', '.join(self.choices)}")


@dataclass(frozen=True, slots=True)
class OneOfAnyCase:
    choices: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"(case insensitive) [{', '.join(self.choices)}]"

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, str) or value.upper() not in self.choices:
            raise refused(name, value, f"String must be one of (case insensitive): {', '.join(self.choices)}")


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list without duplicates and without empty entries, of any strings or of some."""

    choices: tuple[str, ...] = ()
    may_be_empty: bool = False
    may_be_null: bool = False
    own: tuple[str, ...] = ()
    """Choices that Kafka does not have: accepted, but not listed in messages, which are Kafka's."""

    @property
    def text(self) -> str:
        what = f"list of {OneOf(self.choices).text}" if self.choices else "list of any"
        return what + " or empty" * self.may_be_empty + " or null" * self.may_be_null

    def check(self, name: str, value: Value) -> None:
        if value is None:
            if self.may_be_null:
                return
            raise ConfigRefused(f"Configuration '{name}' values must not be null.")
        assert isinstance(value, tuple)
        if not value and not self.may_be_empty:
            valid = OneOf(self.choices).text if self.choices else "any non-empty value"
            raise ConfigRefused(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
        if len(set(value)) != len(value):
            raise ConfigRefused(f"Configuration '{name}' values must not be duplicated.")
        for entry in value:
            if not entry:
                raise ConfigRefused(f"Configuration '{name}' values must not be empty.")
            if self.choices and entry not in self.own:
                OneOf(self.choices).check(name, entry)


@dataclass(frozen=True, slots=True)
class NonEmpty:
    text: str = "non-empty string"

    def check(self, name: str, value: Value) -> None:
        if value == "":
            raise refused(name, value, "String must be non-empty")


@dataclass(frozen=True, slots=True)
class NonNull:
    text: str = "non-null string"

    def check(self, name: str, value: Value) -> None:
        if value is None:
            raise refused(name, None, "entry must be non null")


@dataclass(frozen=True, slots=True)
class GzipLevel:
    text: str = "[1,...,9] or -1"

    def check(self, name: str, value: Value) -> None:
        if value is None:
            raise refused(name, None, "Value must be non-null")
        assert isinstance(value, int)
        if value > 9 or (value < 1 and value != -1):
            raise refused(name, value, "Value must be between 1 and 9 or equal to -1")


_THROTTLED_REPLICA = re.compile(r"(\d+:\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """Every replica (`*`), none, or some as partition:broker; Kafka accepts empty entries, so they are accepted here."""

    text: str = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

    def check(self, name: str, value: Value) -> None:
        if value is None:
            raise refused(name, None, "Value must be non-null")
        assert isinstance(value, tuple)
        if "".join(value) != "*" and not all(_THROTTLED_REPLICA.fullmatch(entry) for entry in value):
            why = f"{name} must be the literal '*' or a list of replicas in the following format: {self.text}"
            raise refused(name, value, why)


@dataclass(frozen=True, slots=True)
class QuorumVoters:
    """`id@host:port` entries; may be empty."""

    text: str = "non-empty list"

    def check(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple), "the default is an empty list, so there is always one"
        parse_voters(value)


@dataclass(frozen=True, slots=True)
class BootstrapServers:
    """`host:port` entries; may be empty."""

    text: str = "non-empty list"

    def check(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple), "the default is an empty list, so there is always one"
        parse_bootstrap_servers(value)


# ISO 8601 durations as parsed by java.time.Duration: days, hours, minutes, seconds, at least one of them, none negative.
_AMOUNT = r"\+?\d+"
_DURATION = re.compile(
    rf"\+?P(?=\+?\d|T\+?\d)({_AMOUNT}D)?(T(?=\+?\d)({_AMOUNT}H)?({_AMOUNT}M)?({_AMOUNT}([.,]\d{{0,9}})?S)?)?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The start of a share group: `latest`, `earliest`, or `by_duration:` and an ISO 8601 duration."""

    text: str = "[latest, earliest, by_duration:PnDTnHnMn.nS]"

    def check(self, name: str, value: Value) -> None:
        assert isinstance(value, str)
        strategy, _, duration = value.partition(":")
        if value in ("latest", "earliest") or (strategy == "by_duration" and _DURATION.fullmatch(duration)):
            return
        rule = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        raise refused(name, value, f"Invalid value `{value}` for configuration {name}. {rule}")
