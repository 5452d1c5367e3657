"""A fresh node describes its configurations as Apache Kafka's fresh node did."""

from __future__ import annotations

import pytest
from isthmus_broker.core.config.definitions import GROUP_CONFIGS
from isthmus_broker.core.config.describe import (
    Described,
    Source,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from isthmus_broker.core.config.group_config import GROUP_SYNONYMS
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import NodeConfig, resolve_node
from isthmus_broker.core.config.topic_config import TOPIC_SYNONYMS
from isthmus_broker.core.config.values import Type

from tests.unit.config.recording import recorded

# The settings of the recorded node, and those that Kafka itself sets when it formats a cluster with ELR.
STATIC = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "log.dirs": "FOLDER/data",
    "offsets.topic.replication.factor": "1",
}
FRESH = BrokerLayers(STATIC, dynamic_default={"min.insync.replicas": "1"})

SOURCES = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
}


@pytest.fixture(scope="module")
def node() -> NodeConfig:
    return resolve_node(FRESH)


def as_recorded(entries: list[Described]) -> dict[str, dict[str, object]]:
    return {
        entry.name: {
            "value": with_ports(entry.value),
            "source": SOURCES[entry.source],
            "sensitive": entry.sensitive,
            "read_only": entry.read_only,
            "type": Type(entry.type_id).name,
            "synonyms": [
                {"name": s.name, "value": with_ports(s.value), "source": SOURCES[s.source]} for s in entry.synonyms
            ],
        }
        for entry in entries
    }


def with_ports(value: str | None) -> str | None:
    if value is None or value == "PLAINTEXT://:9092":
        return value
    return value.replace(":9092", ":BROKER_PORT").replace(":9093", ":CONTROLLER_PORT")


def test_topic(node: NodeConfig) -> None:
    assert as_recorded(describe_topic(node, {})) == recorded("described")["topic"]


def test_broker(node: NodeConfig) -> None:
    assert as_recorded(describe_broker(node)) == recorded("described")["broker"]


def test_broker_default(node: NodeConfig) -> None:
    assert as_recorded(describe_broker_default(node)) == recorded("described")["broker_default"]


def test_group(node: NodeConfig) -> None:
    assert as_recorded(describe_group(node, {})) == recorded("described")["group"]


def test_client_metrics() -> None:
    assert as_recorded(describe_client_metrics({})) == recorded("described")["client_metrics"]


def test_synonyms_of_topics_equal_the_recording() -> None:
    ours = {
        name: [{"name": broker, "seven_becomes": str(7 * factor)} for broker, factor in synonyms]
        for name, synonyms in TOPIC_SYNONYMS.items()
        if not name.startswith("isthmus.")
    }
    assert ours == recorded("definitions")["topic_synonyms"]


def test_synonyms_of_groups_equal_the_recording() -> None:
    assert recorded("definitions")["group_synonyms"] == GROUP_SYNONYMS
    assert set(GROUP_SYNONYMS) == set(GROUP_CONFIGS)


def only(entries: list[Described], name: str) -> Described:
    return next(entry for entry in entries if entry.name == name)


def test_the_chain_of_a_topic_setting_runs_from_the_topic_to_the_default() -> None:
    layers = BrokerLayers(
        STATIC | {"log.retention.ms": "3", "log.retention.hours": "1"},
        {"log.retention.ms": "2"},
        {"log.retention.ms": "1"},
    )
    entry = only(describe_topic(resolve_node(layers), {"retention.ms": " 9 "}), "retention.ms")
    assert (entry.value, entry.source) == ("9", Source.TOPIC)
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
        ("retention.ms", "9", Source.TOPIC),
        ("log.retention.ms", "1", Source.DYNAMIC_BROKER),
        ("log.retention.ms", "2", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "3", Source.STATIC_BROKER),
        ("log.retention.hours", "1", Source.STATIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_a_setting_given_only_in_hours_is_shown_as_a_default_like_kafka_does() -> None:
    entry = only(describe_topic(resolve_node(BrokerLayers(STATIC | {"log.retention.hours": "1"})), {}), "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", Source.DEFAULT, ())


def test_an_unknown_setting_is_shown_without_its_value() -> None:
    entry = only(describe_broker(resolve_node(BrokerLayers(STATIC | {"my.secret": "x"}))), "my.secret")
    assert (entry.value, entry.sensitive, entry.read_only, entry.type_id) == (None, True, True, 0)
    assert [(s.value, s.source) for s in entry.synonyms] == [(None, Source.STATIC_BROKER)]


def test_a_password_is_never_shown() -> None:
    entry = only(describe_broker(resolve_node(BrokerLayers(STATIC | {"ssl.key.password": "x"}))), "ssl.key.password")
    assert (entry.value, entry.sensitive) == (None, True)
    assert [s.value for s in entry.synonyms] == [None]
