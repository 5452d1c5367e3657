"""A node's settings are resolved, and invalid combinations are refused with Kafka's messages."""

from __future__ import annotations

from dataclasses import fields

import pytest
from isthmus_broker.core.config.addresses import Voter, parse_voters
from isthmus_broker.core.config.definitions import BROKER_CONFIGS
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.listeners import Listener
from isthmus_broker.core.config.node_config import (
    NodeConfig,
    NodeSettings,
    resolve_node,
    with_embedded_defaults,
)
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_model.addresses import Address

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
}


def resolved() -> NodeConfig:
    return resolve_node(BrokerLayers(BASE))


def with_settings(*changes: tuple[str, str | None]) -> NodeConfig:
    settings = dict(BASE)
    for name, value in changes:
        if value is None:
            del settings[name]
        else:
            settings[name] = value
    return resolve_node(BrokerLayers(settings))


def test_every_setting_has_a_definition() -> None:
    assert {field.name.replace("_", ".") for field in fields(NodeSettings)} <= set(BROKER_CONFIGS)


def test_embedded_defaults_make_a_node_of_its_own() -> None:
    node = resolve_node(BrokerLayers(with_embedded_defaults({}, "data")))
    assert node.roles == {"broker", "controller"}
    assert node.node_id == 1
    assert [listener.text for listener in node.listeners.bound] == [
        "PLAINTEXT://127.0.0.1:9092",
        "CONTROLLER://127.0.0.1:9093",
    ]
    assert node.voters == (Voter(1, Address("127.0.0.1", 9093)),)
    assert node.log_dirs == ("data",)
    assert node.metadata_log_dir == "data"
    assert node.settings.offsets_topic_replication_factor == 1
    assert node.settings.group_initial_rebalance_delay_ms == 0


def test_embedded_defaults_follow_what_is_given() -> None:
    given = {
        "listeners": "A://[::1]:1,CONTROLLER://[::1]:2",
        "listener.security.protocol.map": "A:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    settings = with_embedded_defaults({**given, "node.id": "7", "inter.broker.listener.name": "A"}, "data")
    assert resolve_node(BrokerLayers(settings)).voters == (Voter(7, Address("::1", 2)),)


def test_a_configuration_with_roles_is_taken_as_it_is() -> None:
    assert with_embedded_defaults(BASE, "data") == BASE


def test_advertised_listeners_leave_the_controller_out() -> None:
    node = with_settings(("advertised.listeners", "PLAINTEXT://kafka.example:19092"))
    assert node.listeners.advertised == (Listener("PLAINTEXT", "PLAINTEXT", "kafka.example", 19092),)
    assert node.listeners.of_brokers == (Listener("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert node.listeners.advertised_to_controllers == (Listener("CONTROLLER", "PLAINTEXT", "localhost", 9093),)


def test_several_listeners_with_names_of_their_own() -> None:
    node = with_settings(
        ("listeners", "INSIDE://:1,OUTSIDE://:2,CONTROLLER://:3"),
        ("listener.security.protocol.map", "INSIDE:PLAINTEXT,outside:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        ("inter.broker.listener.name", "inside"),
    )
    assert node.listeners.inter_broker == "INSIDE"
    assert [listener.name for listener in node.listeners.advertised] == ["INSIDE", "OUTSIDE"]


def test_the_same_port_serves_ipv4_and_ipv6() -> None:
    node = with_settings(
        ("listeners", "A://127.0.0.1:1,B://[::1]:1,CONTROLLER://:3"),
        ("listener.security.protocol.map", "A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        ("inter.broker.listener.name", "A"),
    )
    assert [listener.text for listener in node.listeners.advertised] == ["A://127.0.0.1:1", "B://[::1]:1"]


def test_node_id_fills_in_for_broker_id_and_back() -> None:
    assert with_settings(("node.id", None), ("broker.id", "1")).node_id == 1
    assert resolved().values["broker.id"] == 1


def test_a_dynamic_setting_replaces_its_synonyms() -> None:
    layers = BrokerLayers(BASE | {"log.roll.ms": "5"}, dynamic_default={"log.roll.hours": "2"})
    assert resolve_node(layers).topic_defaults["segment.ms"] == 7_200_000


def test_per_broker_wins_over_the_default_for_all() -> None:
    layers = BrokerLayers(BASE, {"message.max.bytes": "5"}, {"message.max.bytes": "6"})
    assert resolve_node(layers).topic_defaults["max.message.bytes"] == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("broker.id", "2")], "You must set `node.id` to the same value as `broker.id`."),
        ([("log.roll.ms", "0")], "log.roll.ms must be greater than or equal to 1"),
        ([("log.roll.jitter.ms", "-1")], "log.roll.jitter.ms must be greater than or equal to 0"),
        ([("log.retention.ms", "0")], "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        (
            [("log.cleaner.dedupe.buffer.size", "1048576")],
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            [("replica.fetch.wait.max.ms", "40000"), ("replica.socket.timeout.ms", "50000")],
            (
                "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
                " to prevent frequent changes in ISR"
            ),
        ),
        (
            [("controller.quorum.voters", "2@a:1")],
            (
                "If process.roles contains the 'controller' role, the node id 1 must be included in the set of voters"
                " controller.quorum.voters=Set(2)"
            ),
        ),
        (
            [("controller.quorum.voters", None)],
            (
                "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
                "controllers or controller.quorum.voters must contain a parseable set of controllers."
            ),
        ),
        (
            [("controller.quorum.voters", "1:2")],
            (
                "Invalid configuration value for controller.quorum.voters. "
                "Each entry should be in the form `{id}@{host}:{port}`."
            ),
        ),
        (
            [("listeners", "PLAINTEXT://:9092")],
            (
                "controller.listener.names must contain at least one value appearing in the 'listeners' configuration"
                " when running the KRaft controller role"
            ),
        ),
        (
            [("advertised.listeners", "PLAINTEXT://0.0.0.0:1")],
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        ),
        (
            [("listeners", "CONTROLLER://:9093")],
            (
                "There must be at least one broker advertised listener."
                " Perhaps all listeners appear in controller.listener.names?"
            ),
        ),
        (
            [("listeners", "SSL://:9092,CONTROLLER://:9093")],
            (
                "Error creating broker listeners from '[SSL://:9092, CONTROLLER://:9093]':"
                " No security protocol defined for listener CONTROLLER"
            ),
        ),
        (
            [("listeners", "PLAINTEXT://:9092,CONTROLLER://:9092")],
            (
                "Error creating broker listeners from '[PLAINTEXT://:9092, CONTROLLER://:9092]':"
                " Each listener must have a different port, listeners: [PLAINTEXT://:9092, CONTROLLER://:9092]"
            ),
        ),
        (
            [("listeners", "PLAINTEXT://:9092,plaintext://:9093")],
            (
                "Error creating broker listeners from '[PLAINTEXT://:9092, plaintext://:9093]': Each listener must have"
                " a different name, listeners: [PLAINTEXT://:9092, plaintext://:9093]"
            ),
        ),
        (
            [("listeners", "PLAINTEXT:9092")],
            "Error creating broker listeners from '[PLAINTEXT:9092]': Unable to parse PLAINTEXT:9092 to a broker endpoint",
        ),
        (
            [("inter.broker.listener.name", "OTHER")],
            "Listener with name OTHER defined in inter.broker.listener.name not found in listener.security.protocol.map.",
        ),
        (
            [("inter.broker.listener.name", "PLAINTEXT"), ("security.inter.broker.protocol", "PLAINTEXT")],
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            [("max.connections.per.ip", "0")],
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            [("queued.max.request.bytes", "5")],
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            [("group.coordinator.rebalance.protocols", "consumer")],
            "Disabling the 'classic' protocol is not supported.",
        ),
        (
            [("group.consumer.session.timeout.ms", "5000"), ("group.consumer.min.session.timeout.ms", "5000")],
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        (
            [("cordoned.log.dirs", "x")],
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : x",
        ),
        (
            [("process.roles", "broker")],
            (
                "If process.roles contains just the 'broker' role, the node id 1 must not be included in the set of voters"
                " controller.quorum.voters=Set(1)"
            ),
        ),
        (
            [("process.roles", "controller")],
            (
                "The listeners config must only contain KRaft controller listeners from controller.listener.names"
                " when process.roles=controller"
            ),
        ),
    ],
)
def test_refusals(changes: list[tuple[str, str | None]], message: str) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        with_settings(*changes)
    assert str(refusal.value).removeprefix("requirement failed: ") == message


def test_what_kafka_requires_is_said_so() -> None:
    with pytest.raises(ConfigRefused, match=r"^requirement failed: log\.roll\.ms must be"):
        with_settings(("log.roll.ms", "0"))
    with pytest.raises(ConfigRefused, match=r"^You must set"):
        with_settings(("broker.id", "2"))


def test_voters_are_in_order_of_their_ids() -> None:
    assert parse_voters(["10@b:1", "2@[::1]:2"]) == (Voter(2, Address("::1", 2)), Voter(10, Address("b", 1)))
