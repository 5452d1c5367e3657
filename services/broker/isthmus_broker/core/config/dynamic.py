"""Dynamic settings of a running broker: which may change, for which brokers, and their validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from isthmus_broker.core.config.definition import Change
from isthmus_broker.core.config.definitions import BROKER_CONFIGS, DYNAMIC_ONLY_BROKER_CONFIGS
from isthmus_broker.core.config.layers import BrokerLayers, base_name
from isthmus_broker.core.config.node_config import NodeConfig, resolve_node
from isthmus_broker.core.config.values import ConfigRefused

# These may only be changed for a single listener, with its prefix.
PER_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
# Of the settings with a listener's prefix only these may be set for all brokers.
_THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
_CLEANER_THREADS: Final = "log.cleaner.threads"
_OF_ALL_LISTENERS: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})


def check_broker(running: BrokerLayers, settings: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise ConfigRefused for settings that cannot change dynamically. They replace the ones of their layer.

    `per_broker` distinguishes a broker's own settings from those of all brokers.
    """
    _none(
        (name for name in settings if name in BROKER_CONFIGS and BROKER_CONFIGS[name].change is Change.AT_START),
        "Cannot update these configs dynamically",
    )
    _none(
        (name for name in settings if name in PER_LISTENER),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    for name, text in settings.items():
        base = base_name(name) or name
        for definitions in (BROKER_CONFIGS, DYNAMIC_ONLY_BROKER_CONFIGS):
            if base in definitions:
                definitions[base].parse(text)
    if not per_broker:
        _none(
            (name for name in settings if _is_per_broker(name)),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    layers = BrokerLayers(
        running.static,
        dynamic_default=running.dynamic_default if per_broker else settings,
        dynamic_broker=settings if per_broker else running.dynamic_broker,
    )
    _check_threads(resolve_node(running), resolve_node(layers))


def _check_threads(before: NodeConfig, after: NodeConfig) -> None:
    """Kafka resizes a pool of threads to at most twice and at least half its size at a time."""
    for name in (*_THREADS, _CLEANER_THREADS):
        old, new = before.values[name], after.values[name]
        assert isinstance(old, int)
        assert isinstance(new, int)
        if old // 2 <= new <= old * 2:
            continue
        if name == _CLEANER_THREADS:
            step = "increased to more than double" if new > old else "reduced to less than half"
            why = f"Log cleaner threads cannot be {step} the current value {old}"
        else:
            bound = "not be greater than double" if new > old else "be at least half"
            why = f"Dynamic thread count update validation failed for {name}={new}, value should {bound} the current value {old}"
        exception = f"org.apache.kafka.common.config.ConfigException: {why}"
        raise ConfigRefused(f"Invalid value {exception} for configuration Invalid dynamic configuration")


def usable(settings: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """The valid settings of a layer: a broker starts with these and ignores the others."""
    return {name: text for name, text in settings.items() if _holds(name, text, per_broker=per_broker)}


def _holds(name: str, text: str, *, per_broker: bool) -> bool:
    base = base_name(name) or name
    if name in PER_LISTENER or (not per_broker and _is_per_broker(name)):
        return False
    if name in BROKER_CONFIGS and BROKER_CONFIGS[name].change is Change.AT_START:
        return False
    try:
        for definitions in (BROKER_CONFIGS, DYNAMIC_ONLY_BROKER_CONFIGS):
            if base in definitions:
                definitions[base].parse(text)
    except ConfigRefused:
        return False
    return True


def _is_per_broker(name: str) -> bool:
    base = base_name(name)
    if base is not None:
        return base not in _OF_ALL_LISTENERS
    return name in BROKER_CONFIGS and BROKER_CONFIGS[name].change is Change.PER_BROKER


def _none(names: Iterable[str], why: str) -> None:
    refused = sorted(names)
    if refused:
        raise ConfigRefused(f"{why}: [{', '.join(refused)}]")
