"""Every definition equals Apache Kafka's, and parses, refuses and renders in the same way."""

from __future__ import annotations

import pytest
from isthmus_broker.core.config.definition import REQUIRED, Change, Definition, Definitions
from isthmus_broker.core.config.definitions import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    DYNAMIC_ONLY_BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
)
from isthmus_broker.core.config.definitions.own import OWN_BROKER, OWN_TOPIC
from isthmus_broker.core.config.values import ConfigRefused, as_java, render

from tests.unit.config.recording import recorded

KINDS = {
    "topic": TOPIC_CONFIGS,
    "broker": BROKER_CONFIGS,
    "broker_dynamic_only": DYNAMIC_ONLY_BROKER_CONFIGS,
    "group": GROUP_CONFIGS,
    "client_metrics": CLIENT_METRICS_CONFIGS,
}
OWN = {definition.name for definition in (*OWN_BROKER, *OWN_TOPIC)}


def as_recorded(definition: Definition) -> dict[str, object]:
    return {
        "type": definition.type.name,
        "required": definition.default is REQUIRED,
        "default": definition.default_text,
        "validator": definition.validator.text if definition.validator else None,
        "importance": definition.importance.name,
        "internal": definition.internal,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_definitions_equal_the_recording(kind: str) -> None:
    ours = {name: as_recorded(d) for name, d in KINDS[kind].items() if name not in OWN}
    assert ours == recorded("definitions")["definitions"][kind]


def test_what_may_change_while_running_equals_the_recording() -> None:
    brokers = {**BROKER_CONFIGS, **DYNAMIC_ONLY_BROKER_CONFIGS}
    changing = {name: d for name, d in brokers.items() if name not in OWN and d.change is not Change.AT_START}
    ours = {name: d.change.value for name, d in changing.items()}
    assert ours == recorded("definitions")["dynamic_broker_keys"]


def result(definition: Definition, text: str) -> dict[str, object]:
    """The result of the recorded probes: parse, then validate, without removing duplicates from a list."""
    try:
        value = definition.read(text)
        if definition.validator is not None:
            definition.validator.check(definition.name, value)
        return {"value": render(value, definition.type)}
    except ConfigRefused as refusal:
        return {"refused": str(refusal)}


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_taken_and_refused_as_recorded(kind: str) -> None:
    probes = recorded("probes")[kind]
    definitions: Definitions = KINDS[kind]
    ours = {name: {text: result(definitions[name], text) for text in asked} for name, asked in probes.items()}
    for name, asked in probes.items():
        assert ours[name] == asked, name


def test_every_default_satisfies_its_own_validator() -> None:
    for definitions in KINDS.values():
        for definition in definitions.values():
            if definition.default_text is not None and not definition.sensitive:
                assert definition.parse(definition.default_text) == definition.default_value


def test_a_list_names_everything_once() -> None:
    assert TOPIC_CONFIGS["cleanup.policy"].parse("delete, compact,delete") == ("delete", "compact")


def test_a_missing_required_configuration_is_named() -> None:
    with pytest.raises(ConfigRefused, match=r'Missing required configuration "controller\.listener\.names"'):
        BROKER_CONFIGS.parse({})


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (0.001, "0.001"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (-2e-5, "-2.0E-5"),
        (1.5e300, "1.5E300"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_shown_as_java_shows_them(number: float, text: str) -> None:
    assert as_java(number) == text
