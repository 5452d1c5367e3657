"""Settings that change at run time."""

from __future__ import annotations

import re

import pytest
from isthmus_broker.core.config.dynamic import PER_LISTENER, check_broker, usable
from isthmus_broker.core.config.layers import BrokerLayers, base_name, broker_synonyms
from isthmus_broker.core.config.node_config import with_embedded_defaults
from isthmus_broker.core.config.values import ConfigRefused


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


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("num.io.threads", "3", "failed for num.io.threads=3, value should be at least half the current value 8 "),
        ("num.io.threads", "17", "failed for num.io.threads=17, value should not be greater than double the current "),
        (
            "log.cleaner.threads",
            "3",
            "Log cleaner threads cannot be increased to more than double the current value 1 ",
        ),
    ],
)
def test_a_pool_of_threads_changes_by_a_factor_of_two_at_most(name: str, text: str, why: str) -> None:
    running = BrokerLayers(with_embedded_defaults({}, "data"))
    with pytest.raises(ConfigRefused, match=re.escape(why)):
        check_broker(running, {name: text}, per_broker=True)
    check_broker(BrokerLayers(running.static, dynamic_broker={name: "8"}), {name: "4"}, per_broker=True)
