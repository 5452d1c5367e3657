"""The settings of a link, with Confluent's names and defaults.

A setting of Confluent's that has no effect here yet is refused rather than accepted and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus_model.addresses import split_host_and_port
from isthmus_model.filters import GROUP_FILTERS, TOPIC_FILTERS
from isthmus_wire.extensions.mirrors import ALWAYS_SYNCED_CONFIGS, CONFIGURABLE_CONFIGS

from isthmus_broker.core.config.definition import REQUIRED, Definition, Definitions, Importance
from isthmus_broker.core.config.validators import ListOf, OneOf, Range, Validator
from isthmus_broker.core.config.values import ConfigRefused, Type, Value, refused, render
from isthmus_broker.core.links.filters import FiltersText

BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
PREFIX: Final = "cluster.link.prefix"
PAUSED: Final = "cluster.link.paused"
CONFIG_SYNC_INCLUDE: Final = "topic.config.sync.include"
AUTO_CREATE: Final = "auto.create.mirror.topics.enable"
AUTO_CREATE_FILTERS: Final = "auto.create.mirror.topics.filters"
PREFIX_LENGTH_MAX: Final = 12
VALUE_LENGTH_MAX: Final = 32_767
"""Maximum number of characters of a value, as for Kafka's own settings."""
_PREFIX_TEXT: Final = re.compile(r"[a-zA-Z0-9._-]+")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Servers:
    """At least one `host:port`."""

    text: str = "host:port,..."

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigRefused for an empty or malformed list."""
        assert isinstance(value, tuple)
        if not value or any("://" in entry or split_host_and_port(entry) is None for entry in value):
            raise refused(name, value, "it must name brokers of the source as host:port,host:port")


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A prefix for the names of mirror topics."""

    text: str = f"at most {PREFIX_LENGTH_MAX} characters of a topic's name"

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigRefused for a prefix that no topic name may have."""
        if value is not None and (len(str(value)) > PREFIX_LENGTH_MAX or not _PREFIX_TEXT.fullmatch(str(value))):
            raise refused(name, value, f"it must be {self.text}")


@dataclass(frozen=True, slots=True)
class _StartOffset:
    """The offset at which the copy of a topic begins."""

    text: str = "earliest, latest, or a time as 2026-01-31T12:00:00Z"

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigRefused for any other text."""
        if value not in ("earliest", "latest") and not _TIME.fullmatch(str(value)):
            raise refused(name, value, f"it must be {self.text}")


def _setting(name: str, kind: Type, default: Value, validator: Validator | None = None) -> Definition:
    return Definition(name, kind, default, validator, Importance.MEDIUM)


LINK_CONFIGS: Final = Definitions(
    (
        Definition(BOOTSTRAP_SERVERS, Type.LIST, REQUIRED, _Servers(), Importance.HIGH),
        _setting("link.mode", Type.STRING, "DESTINATION", OneOf(("DESTINATION",))),
        _setting("connection.mode", Type.STRING, "OUTBOUND", OneOf(("OUTBOUND",))),
        _setting("security.protocol", Type.STRING, "PLAINTEXT", OneOf(("PLAINTEXT",))),
        _setting(PREFIX, Type.STRING, None, _Prefix()),
        _setting(PAUSED, Type.BOOLEAN, False),
        _setting("consumer.group.prefix.enable", Type.BOOLEAN, False),
        _setting("consumer.offset.sync.enable", Type.BOOLEAN, False),
        _setting("consumer.offset.sync.ms", Type.INT, 30_000, Range(1000)),
        _setting("consumer.offset.group.filters", Type.STRING, "", FiltersText(GROUP_FILTERS)),
        _setting("topic.config.sync.ms", Type.INT, 5_000, Range(1000)),
        _setting(
            CONFIG_SYNC_INCLUDE,
            Type.LIST,
            CONFIGURABLE_CONFIGS,
            ListOf((*CONFIGURABLE_CONFIGS, *ALWAYS_SYNCED_CONFIGS), may_be_empty=True),
        ),
        _setting(AUTO_CREATE, Type.BOOLEAN, False),
        _setting(AUTO_CREATE_FILTERS, Type.STRING, "", FiltersText(TOPIC_FILTERS)),
        _setting("mirror.start.offset.spec", Type.STRING, "earliest", _StartOffset()),
        _setting("availability.check.ms", Type.INT, 60_000, Range(1000)),
        _setting("availability.check.consecutive.failure.threshold", Type.INT, 5, Range(1)),
        _setting("cluster.link.retry.timeout.ms", Type.INT, 300_000, Range(0)),
        _setting("replica.fetch.max.bytes", Type.INT, 1 << 20, Range(1)),
        _setting("replica.fetch.min.bytes", Type.INT, 1, Range(0)),
        _setting("replica.fetch.response.max.bytes", Type.INT, 10 << 20, Range(1)),
        _setting("replica.fetch.wait.max.ms", Type.INT, 500, Range(0)),
        _setting("replica.fetch.backoff.ms", Type.INT, 1_000, Range(0)),
    )
)
_NOT_THERE_YET: Final = {
    "link.mode": ("SOURCE", "BIDIRECTIONAL"),
    "connection.mode": ("INBOUND",),
    "security.protocol": ("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
"""Values that Confluent's links accept and this release does not."""
_UNSUPPORTED: Final = re.compile(
    r"(acl\.(sync\.enable|sync\.ms|filters)|(local\.)?(ssl|sasl)\..+|local\.security\.protocol|num\.cluster\.link\.fetchers"
    r"|connections\.max\.idle\.ms|metadata\.max\.age\.ms|retry\.backoff\.ms|request\.timeout\.ms"
    r"|reverse\.connection\.setup\.timeout\.ms)"
)
"""Settings that Confluent's links have and this release does not."""
_LATER: Final = "which links do not support in this release"


def altered(current: Mapping[str, str], changes: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return the settings after changes, where null restores a default; raises ConfigRefused for an invalid combination.

    Values are normalised to one spelling, which is what workers read.
    """
    settings = dict(current)
    for name, value in changes:
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value
    if settings.get(AUTO_CREATE, "").strip().lower() != "true":
        settings.pop(AUTO_CREATE_FILTERS, None)  # as in Confluent's: switching it off clears its filters
    check(settings)
    return {name: _spelt(LINK_CONFIGS[name], value) for name, value in settings.items()}


def _spelt(definition: Definition, text: str) -> str:
    assert not definition.sensitive, "secrets are not supported"
    return render(definition.parse(text), definition.type) or ""


def check(settings: Mapping[str, str]) -> None:
    """Raise ConfigRefused for settings that a link cannot have."""
    for name, value in sorted(settings.items()):
        if len(value) > VALUE_LENGTH_MAX:
            raise ConfigRefused(f"The value of {name} is longer than {VALUE_LENGTH_MAX} characters.")
        if value.strip() in _NOT_THERE_YET.get(name, ()):
            raise ConfigRefused(f"{name} is set to {value.strip()}, {_LATER}.")
        if name not in LINK_CONFIGS:
            unsupported = _UNSUPPORTED.fullmatch(name)
            raise ConfigRefused(
                f"{name} is a setting {_LATER}." if unsupported else f"Unknown link config name: {name}"
            )
    LINK_CONFIGS.parse(settings)


def values_of(settings: Mapping[str, str]) -> Mapping[str, Value]:
    """Every setting of a link, typed. The values were validated when they were set."""
    return LINK_CONFIGS.parse(settings)


def servers_of(settings: Mapping[str, str]) -> str:
    """The addresses of the source cluster."""
    servers = values_of(settings)[BOOTSTRAP_SERVERS]
    assert isinstance(servers, tuple), "a list, by its definition"
    return ",".join(servers)
