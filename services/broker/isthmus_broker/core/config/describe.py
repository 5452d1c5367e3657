"""Descriptions of configurations: the value, its source, and its synonyms in order of precedence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from isthmus_broker.core.config.definition import Change, Definition, Definitions
from isthmus_broker.core.config.definitions import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    DYNAMIC_ONLY_BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
)
from isthmus_broker.core.config.group_config import GROUP_SYNONYMS, group_values
from isthmus_broker.core.config.layers import BrokerLayers, broker_synonyms, with_both_ids
from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.topic_config import TOPIC_SYNONYMS, topic_values
from isthmus_broker.core.config.values import Type, Value, render


class Source(IntEnum):
    """The source of a value, by the numbers of the DescribeConfigs protocol."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


UNKNOWN_TYPE = 0


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Described:
    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type_id: int
    synonyms: tuple[Synonym, ...]
    doc: str | None


def _entry(definition: Definition, value: str | None, synonyms: tuple[Synonym, ...]) -> Described:
    """An entry whose source is that of its first synonym."""
    return Described(
        name=definition.name,
        value=None if definition.sensitive else value,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        read_only=False,
        sensitive=definition.sensitive,
        type_id=definition.type.value,
        synonyms=synonyms,
        doc=definition.doc or None,
    )


def describe_topic(node: NodeConfig, overrides: Mapping[str, str]) -> list[Described]:
    return _described_over_broker(node, TOPIC_CONFIGS, topic_values(overrides, node.topic_defaults), overrides)


def describe_group(node: NodeConfig, overrides: Mapping[str, str]) -> list[Described]:
    return _described_over_broker(node, GROUP_CONFIGS, group_values(overrides, node.values), overrides)


def _described_over_broker(
    node: NodeConfig, definitions: Definitions, values: Mapping[str, Value], overrides: Mapping[str, str]
) -> list[Described]:
    entries = []
    for name, definition in definitions.items():
        if definition.internal and name not in overrides:
            continue
        value = render(values[name], definition.type)
        if definitions is TOPIC_CONFIGS:
            broker_name, own = TOPIC_SYNONYMS.get(name, ((None, 1),))[0][0], Source.TOPIC
        else:
            broker_name, own = GROUP_SYNONYMS[name], Source.GROUP
        chain = _broker_chain(node, broker_name) if broker_name is not None else _default_chain(definition, own)
        if name in overrides:
            chain = (Synonym(name, None if definition.sensitive else value, own), *chain)
        entries.append(_entry(definition, value, chain))
    return entries


def _default_chain(definition: Definition, own: Source) -> tuple[Synonym, ...]:
    """A group setting without a broker setting as its synonym has its own default; a topic setting has none."""
    if own is Source.TOPIC:
        return ()
    return (Synonym(definition.name, definition.default_text, Source.DEFAULT),)


def describe_broker(node: NodeConfig) -> list[Described]:
    """Every setting of this broker, and given ones that Kafka does not know."""
    texts = node.layers.effective()
    entries = []
    for name, definition in BROKER_CONFIGS.items():
        if definition.internal and name not in texts:
            continue
        value = render(node.values[name], definition.type)
        entries.append(_broker_entry(definition, value, _broker_chain(node, name)))
    unknown = sorted(texts.keys() - BROKER_CONFIGS.keys())
    return entries + [_undefined_entry(name, texts[name], _broker_chain(node, name)) for name in unknown]


def describe_broker_default(node: NodeConfig) -> list[Described]:
    """The dynamic settings of all brokers."""
    entries = []
    for name, text in sorted(node.layers.dynamic_default.items()):
        chain = tuple(s for s in _broker_chain(node, name) if s.source is Source.DYNAMIC_DEFAULT_BROKER)
        definition = broker_definition(name)
        entries.append(
            _broker_entry(definition, text, chain)
            if definition is not None and definition.name == name
            else _undefined_entry(name, text, chain)
        )
    return entries


def _broker_entry(definition: Definition, value: str | None, chain: tuple[Synonym, ...]) -> Described:
    return replace(_entry(definition, value, chain), read_only=definition.change is Change.AT_START)


def _undefined_entry(name: str, text: str, chain: tuple[Synonym, ...]) -> Described:
    """A setting with a listener's prefix is described like the one it overrides; one of unknown type is sensitive."""
    definition = broker_definition(name)
    sensitive = definition is None or definition.sensitive
    return Described(
        name=name,
        value=None if sensitive else text,
        source=chain[0].source if chain else Source.DEFAULT,
        read_only=name not in DYNAMIC_ONLY_BROKER_CONFIGS,
        sensitive=sensitive,
        type_id=UNKNOWN_TYPE if definition is None else definition.type.value,
        synonyms=chain,
        doc=None,
    )


def broker_definition(name: str) -> Definition | None:
    """The definition of a broker setting, also for a name with a listener's prefix."""
    for candidate in (name, *broker_synonyms(name)):
        for definitions in (BROKER_CONFIGS, DYNAMIC_ONLY_BROKER_CONFIGS):
            if candidate in definitions:
                return definitions[candidate]
    return None


def _broker_chain(node: NodeConfig, name: str) -> tuple[Synonym, ...]:
    """The synonyms of a broker setting, layer by layer; the chain starts where the name itself does."""
    definition = broker_definition(name)
    sensitive = definition is None or definition.sensitive
    layers = (
        (node.layers.dynamic_broker, Source.DYNAMIC_BROKER),
        (node.layers.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
        (with_both_ids(node.layers.static), Source.STATIC_BROKER),
        (_DEFAULT_TEXTS, Source.DEFAULT),
    )
    chain = [
        Synonym(synonym, None if sensitive else layer[synonym], source)
        for layer, source in layers
        for synonym in broker_synonyms(name)
        if synonym in layer
    ]
    start = next((position for position, synonym in enumerate(chain) if synonym.name == name), len(chain))
    return tuple(chain[start:])


def effective_topic(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[Described]:
    """Every setting of a topic for the CreateTopics response: the given text, and the layer it comes from."""
    entries = []
    for name, definition in TOPIC_CONFIGS.items():
        if definition.internal and name not in overrides:
            continue
        text, source = _effective_topic(layers, overrides, name)
        entries.append(replace(_entry(definition, text, ()), source=source, doc=None))
    return entries


def effective_topic_text(layers: BrokerLayers, overrides: Mapping[str, str], name: str) -> str | None:
    return _effective_topic(layers, overrides, name)[0]


def _effective_topic(layers: BrokerLayers, overrides: Mapping[str, str], name: str) -> tuple[str | None, Source]:
    if name in overrides:
        return overrides[name], Source.TOPIC
    for layer, source in (
        (layers.dynamic_broker, Source.DYNAMIC_BROKER),
        (layers.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
        (layers.static, Source.STATIC_BROKER),
    ):
        for synonym, factor in TOPIC_SYNONYMS.get(name, ()):
            if synonym in layer:
                text = layer[synonym]
                return (text if factor == 1 else str(int(text) * factor)), source
    return TOPIC_CONFIGS[name].default_text, Source.DEFAULT


_DEFAULT_TEXTS = {
    name: definition.default_text
    for name, definition in BROKER_CONFIGS.items()
    if definition.default_text is not None and definition.type is not Type.PASSWORD
}


def describe_client_metrics(overrides: Mapping[str, str]) -> list[Described]:
    entries = []
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        value = definition.parse(overrides[name]) if name in overrides else definition.default_value
        text = render(value, definition.type)
        chain = (Synonym(name, text, Source.CLIENT_METRICS),) if name in overrides else ()
        entries.append(_entry(definition, text, chain))
    return entries
