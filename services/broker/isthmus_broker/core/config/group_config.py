"""Settings of a single group, over the brokers' settings for all groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus_broker.core.config.definitions import GROUP_CONFIGS
from isthmus_broker.core.config.values import ConfigRefused, Value

# The broker setting that is the default of a group setting; None if the group's own definition has it.
GROUP_SYNONYMS: Final[Mapping[str, str | None]] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.auto.offset.reset": None,
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.isolation.level": None,
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.renew.acknowledge.enable": None,
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The broker settings that bound a group setting."""

    name: str
    low: str | None
    high: str


# In the order of validation.
_BOUNDS: Final = (
    Bounds(
        "consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    Bounds(
        "consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    Bounds(
        "consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    Bounds(
        "share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    Bounds(
        "share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    Bounds(
        "share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    Bounds(
        "share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    Bounds(
        "share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    Bounds(
        "share.assignment.interval.ms",
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    Bounds(
        "streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    Bounds(
        "streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    Bounds("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
    Bounds(
        "streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
)
_PROTOCOLS: Final = ("consumer", "share", "streams")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The effective settings of a consumer group."""

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    consumer_assignment_interval_ms: int


def group_values(overrides: Mapping[str, str], broker: Mapping[str, Value]) -> dict[str, Value]:
    """Every group setting, typed, over the broker's; ConfigRefused if one is unknown or invalid."""
    for name in overrides:
        if name not in GROUP_CONFIGS:
            raise ConfigRefused(f"Unknown group config name: {name}")
    values = {}
    for name, definition in GROUP_CONFIGS.items():
        synonym = GROUP_SYNONYMS[name]
        default = definition.default_value if synonym is None else broker[synonym]
        values[name] = definition.parse(overrides[name]) if name in overrides else default
    return values


def check_group(overrides: Mapping[str, str], broker: Mapping[str, Value]) -> None:
    """Raise ConfigRefused for invalid settings of a group."""
    values = group_values(overrides, broker)
    for refusal in _outside_bounds(values, broker):
        raise ConfigRefused(refusal)
    for protocol in _PROTOCOLS:
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if _number(values, session) <= _number(values, heartbeat):
            raise ConfigRefused(f"{session} must be greater than {heartbeat}")


def _outside_bounds(values: Mapping[str, Value], broker: Mapping[str, Value]) -> Iterator[str]:
    for bounds in _BOUNDS:
        value = _number(values, bounds.name)
        if bounds.low is not None and value < _number(broker, bounds.low):
            yield f"{bounds.name} must be greater than or equal to {bounds.low}"
        if value > _number(broker, bounds.high):
            yield f"{bounds.name} must be less than or equal to {bounds.high}"


def resolve_group(overrides: Mapping[str, str], broker: Mapping[str, Value]) -> GroupConfig:
    """The effective settings of a group: a setting outside the broker's current bounds is moved to the nearest bound."""
    values = group_values(overrides, broker)
    for bounds in _BOUNDS:
        if bounds.name in overrides:
            low = 0 if bounds.low is None else _number(broker, bounds.low)
            values[bounds.name] = min(max(_number(values, bounds.name), low), _number(broker, bounds.high))
    return GroupConfig(
        consumer_session_timeout_ms=_number(values, "consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=_number(values, "consumer.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=_number(values, "consumer.assignment.interval.ms"),
    )


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
