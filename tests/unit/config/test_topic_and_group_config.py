"""Topics and groups: their own settings over the defaults of their brokers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from isthmus_broker.core.config.definitions import TOPIC_CONFIGS
from isthmus_broker.core.config.definitions.own import OWN_TOPIC
from isthmus_broker.core.config.group_config import check_group, resolve_group
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import NodeConfig, resolve_node, with_embedded_defaults
from isthmus_broker.core.config.topic_config import TopicConfig, check_topic, resolve_topic
from isthmus_broker.core.config.values import ConfigRefused

KAFKAS = set(TOPIC_CONFIGS) - {definition.name for definition in OWN_TOPIC}
"""The settings of a topic's log; Isthmus' own settings are about placement."""


def node(**static: str) -> NodeConfig:
    given = {name.replace("_", "."): value for name, value in static.items()}
    return resolve_node(BrokerLayers(with_embedded_defaults(given, "data")))


def test_a_topic_config_has_every_key() -> None:
    assert {field.name.replace("_", ".") for field in fields(TopicConfig)} - {"is.mirrored"} == KAFKAS


def test_a_topic_without_settings_has_kafkas_defaults() -> None:
    config = resolve_topic({}, node().topic_defaults)
    defaults: dict[str, Any] = {name.replace(".", "_"): TOPIC_CONFIGS[name].default_value for name in KAFKAS}
    assert config == TopicConfig(**defaults)


def test_settings_of_the_broker_are_the_topics_defaults() -> None:
    config = resolve_topic(
        {"segment.bytes": "2097152"}, node(log_retention_minutes="3", log_segment_bytes="1048576").topic_defaults
    )
    assert (config.retention_ms, config.segment_bytes) == (180_000, 2_097_152)


def test_an_unlimited_retention_is_minus_one() -> None:
    assert resolve_topic({}, node(log_retention_hours="-2").topic_defaults).retention_ms == -1


def test_a_compacted_topic_closes_segments_in_time_for_its_compaction_lag() -> None:
    lag = {"max.compaction.lag.ms": "1000"}
    assert resolve_topic({**lag, "cleanup.policy": "compact"}, node().topic_defaults).max_segment_ms == 1000
    assert resolve_topic(lag, node().topic_defaults).max_segment_ms == 604_800_000


def test_the_internal_segment_size_wins() -> None:
    assert resolve_topic({"internal.segment.bytes": "10"}, node().topic_defaults).segment_size == 10


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"no.such": "1"}, "Unknown topic config name: no.such"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (
            {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
            "conflict topic config setting min.compaction.lag.ms (2) > max.compaction.lag.ms (1)",
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
    ],
)
def test_refused_topic_settings(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        check_topic(overrides, {}, node().topic_defaults, has_tier=False)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"no.such": "1"}, "Unknown group config name: no.such"),
        (
            {"consumer.session.timeout.ms": "60001"},
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": "4999"},
            "consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
        ),
    ],
)
def test_refused_group_settings(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        check_group(overrides, node().values)
    assert str(refusal.value) == message


def test_a_group_is_moved_into_the_bounds_of_its_broker() -> None:
    config = resolve_group({"consumer.session.timeout.ms": "99999999"}, node().values)
    assert config.consumer_session_timeout_ms == 60_000
    assert config.consumer_heartbeat_interval_ms == 5_000


TIERED = {"remote.storage.enable": "true"}
COPIES_NOTHING = TIERED | {"remote.log.copy.disable": "true"}


@pytest.mark.parametrize(
    "settings",
    [
        TIERED,
        TIERED | {"cleanup.policy": ""},
        TIERED | {"retention.ms": "1000", "local.retention.ms": "1000"},
        TIERED | {"retention.ms": "-1", "local.retention.ms": "-1", "local.retention.bytes": "5"},
        COPIES_NOTHING | {"retention.ms": "1000", "local.retention.ms": "1000"},
        COPIES_NOTHING,
        {"remote.log.copy.disable": "true", "remote.log.delete.on.disable": "true"},
    ],
)
def test_a_cluster_with_a_tier_accepts(settings: dict[str, str]) -> None:
    check_topic(settings, {}, node().topic_defaults, has_tier=True)


# The messages are those of Apache Kafka 4.3.1.
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            (
                TIERED | {"cleanup.policy": policy},
                "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
            )
            for policy in ("compact", "compact,delete")
        ),
        (
            TIERED | {"retention.bytes": "10", "local.retention.bytes": "-1"},
            (
                "Invalid value -1 for configuration local.retention.bytes: "
                "Value must not be -1 as retention.bytes value is set as 10."
            ),
        ),
        (
            TIERED | {"retention.ms": "10", "local.retention.ms": "11"},
            (
                "Invalid value 11 for configuration local.retention.ms: "
                "Value must not be more than retention.ms property value: 10"
            ),
        ),
        (
            COPIES_NOTHING | {"retention.ms": "1000", "local.retention.ms": "10"},
            (
                "When `remote.log.copy.disable` is set to true, the `local.retention.ms` and `retention.ms` must be set to "
                "the identical value because there will be no more logs copied to the remote storage."
            ),
        ),
    ],
)
def test_a_cluster_with_a_tier_refuses(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        check_topic(settings, {}, node().topic_defaults, has_tier=True)
    assert str(refusal.value) == message


def test_a_topic_does_not_leave_the_tier_without_a_word_about_its_data() -> None:
    with pytest.raises(ConfigRefused, match="It is invalid to disable remote storage without deleting remote data"):
        check_topic({}, TIERED, node().topic_defaults, has_tier=True)
    check_topic({"remote.log.delete.on.disable": "true"}, TIERED, node().topic_defaults, has_tier=True)
