"""The layers in which a broker configuration is looked up, and the synonyms of its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# If a setting has several units, the first that is given counts.
_UNITS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: names for names in _UNITS for name in names},
    # One way only: the scheduler's own interval does not follow the flush interval.
    _FLUSH[0]: _FLUSH,
}
_OF_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
# Settings that can also be set per SASL mechanism: listener.name.<listener>.<mechanism>.<setting>.
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def base_name(name: str) -> str | None:
    """The setting that `listener.name.<listener>.` overrides; None for a name without that prefix."""
    match = _OF_LISTENER.fullmatch(name)
    return match[1] if match else None


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The names under which a broker setting is looked up, in order of precedence."""
    if name in _SYNONYMS:
        return _SYNONYMS[name]
    base = base_name(name)
    if base is None:
        return (name,)
    return name, next((setting for setting in _PER_MECHANISM if base.endswith(setting)), base)


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """One broker's settings as texts: its start configuration, the dynamic settings of all brokers, and its own dynamic settings."""

    static: Mapping[str, str]
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict)

    def effective(self) -> dict[str, str]:
        """The settings in force: a dynamic one also overrides its synonyms, whatever their unit."""
        settings = with_both_ids(self.static)
        for layer in (self.dynamic_default, self.dynamic_broker):
            for name, text in layer.items():
                for synonym in _SYNONYMS.get(name, ()):
                    settings.pop(synonym, None)
                settings[name] = text
        return settings


def with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    """Set node.id from its old name broker.id, or the reverse."""
    settings = dict(static)
    for given, missing in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if given in settings and missing not in settings:
            settings[missing] = settings[given]
    return settings
