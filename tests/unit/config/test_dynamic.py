"""Settings that change while a broker runs."""

from __future__ import annotations

from isthmus_broker.core.config.dynamic import PER_LISTENER, usable
from isthmus_broker.core.config.layers import BrokerLayers, base_name, broker_synonyms


def test_a_broker_leaves_out_what_it_cannot_use() -> None:
    told = {
        "message.max.bytes": "5",
        "log.retention.ms": "x",
        "node.id": "7",
        "ssl.keystore.location": "x",
        "listener.name.a.ssl.keystore.location": "x",
        "listeners": "PLAINTEXT://:1",
        "some.plugin": "y",
    }
    assert usable(told, per_broker=True) == {
        "message.max.bytes": "5",
        "listener.name.a.ssl.keystore.location": "x",
        "listeners": "PLAINTEXT://:1",
        "some.plugin": "y",
    }
    assert usable(told, per_broker=False) == {"message.max.bytes": "5", "some.plugin": "y"}


def test_what_may_only_change_for_one_listener() -> None:
    assert len(PER_LISTENER) == 10


def test_names_under_a_listener() -> None:
    assert base_name("listener.name.a.plain.sasl.jaas.config") == "plain.sasl.jaas.config"
    assert broker_synonyms("listener.name.a.plain.sasl.jaas.config")[1] == "sasl.jaas.config"
    assert broker_synonyms("listener.name.a.ssl.key.password")[1] == "ssl.key.password"
    assert broker_synonyms("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert base_name("log.retention.ms") is None


def test_synonyms_of_a_dynamic_setting_are_replaced_with_it() -> None:
    layers = BrokerLayers({"log.retention.minutes": "5", "log.retention.hours": "1"}, {"log.retention.ms": "7"})
    assert layers.effective() == {"log.retention.ms": "7"}
