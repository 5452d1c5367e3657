"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources, with the messages of their refusals."""

from collections.abc import Sequence
from typing import Any, Final

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk

GROUP = Group()
TOPIC: Final = 2
BROKER: Final = 4
LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP_RESOURCE: Final = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
_Resource = tuple[int, str, Sequence[str] | None]


def _describe(
    talk: Talk, *resources: _Resource, version: int = 4, synonyms: bool = True, documentation: bool = False
) -> None:
    entries = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name, keys in resources
    ]
    talk.ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=entries,
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def _alter(
    talk: Talk, kind: int, name: str, *configs: tuple[str, int, str | None], only: bool = False, version: int = 1
) -> None:
    entries = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]
    resources = [{"resource_type": kind, "resource_name": name, "configs": entries}]
    talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources, validate_only=only)


def _replace(
    talk: Talk, kind: int, name: str, *configs: tuple[str, str | None], only: bool = False, version: int = 2
) -> None:
    entries = [{"name": key, "value": value} for key, value in configs]
    resources = [{"resource_type": kind, "resource_name": name, "configs": entries}]
    talk.ask(ApiKey.ALTER_CONFIGS, version, resources=resources, validate_only=only)


@GROUP.exchange
def a_topic(talk: Talk) -> None:
    talk.topic("plain")
    for version in range(1, 5):
        _describe(talk, (TOPIC, "plain", None), version=version)
        _describe(talk, (TOPIC, "plain", None), version=version, synonyms=False)
        _describe(talk, (TOPIC, "plain", ["retention.ms", "no.such.config", "retention.ms"]), version=version)
        _describe(talk, (TOPIC, "plain", []), version=version)


@GROUP.exchange
def brokers(talk: Talk) -> None:
    for version in (1, 4):
        _describe(talk, (BROKER, "1", None), version=version)
        _describe(talk, (BROKER, "", None), version=version)
        _describe(
            talk,
            (BROKER, "1", ["log.retention.ms", "log.cleaner.threads", "node.id", "no.such.config"]),
            version=version,
        )


@GROUP.exchange
def documentation(talk: Talk) -> None:
    _describe(talk, (TOPIC, "plain", ["retention.ms"]), documentation=True)
    _describe(talk, (BROKER, "1", ["log.retention.ms"]), documentation=True)


@GROUP.exchange
def resources_that_are_none(talk: Talk) -> None:
    for kind, name in (
        (TOPIC, "nowhere"), (TOPIC, ""), (TOPIC, "a/b"), (BROKER, "2"), (BROKER, "one"), (BROKER, "-1"), (LOGGER, "2"), (LOGGER, ""),
        (0, "x"), (1, "x"), (3, "x"), (7, "x"), (127, "x"), (-1, "x"), (GROUP_RESOURCE, ""), (CLIENT_METRICS, ""),
    ):  # fmt: skip
        _describe(talk, (kind, name, None))
    _describe(talk)
    _describe(talk, (TOPIC, "plain", ["flush.ms"]), (TOPIC, "plain", ["flush.ms"]), (TOPIC, "nowhere", None))


@GROUP.exchange
def groups(talk: Talk) -> None:
    _describe(talk, (GROUP_RESOURCE, "g", None))
    _alter(talk, GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", SET, "50000"))
    _alter(talk, GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", SET, "1"))
    _alter(talk, GROUP_RESOURCE, "g", ("consumer.heartbeat.interval.ms", SET, "60000"))
    _alter(talk, GROUP_RESOURCE, "g", ("no.such.config", SET, "1"))
    _alter(talk, GROUP_RESOURCE, "", ("consumer.session.timeout.ms", SET, "50000"))
    _describe(talk, (GROUP_RESOURCE, "g", ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]))


@GROUP.exchange
def incremental_changes(talk: Talk) -> None:
    talk.topic("changing")
    keys = ["retention.ms", "cleanup.policy", "min.insync.replicas", "flush.ms"]

    def changed(*configs: tuple[str, int, str | None], version: int = 1) -> None:
        _alter(talk, TOPIC, "changing", *configs, version=version)
        _settled(talk)
        _describe(talk, (TOPIC, "changing", keys))

    changed(("retention.ms", SET, "1000"), version=0)
    changed(("retention.ms", SET, "2000"), ("flush.ms", SET, "5"))
    changed(("cleanup.policy", APPEND, "compact"))
    changed(("cleanup.policy", APPEND, "compact"))
    changed(("cleanup.policy", SUBTRACT, "delete"))
    changed(("cleanup.policy", SUBTRACT, "delete"))
    changed(("cleanup.policy", SUBTRACT, "compact"))
    changed(("retention.ms", DELETE, None))
    changed(("retention.ms", DELETE, "7"))
    changed(("min.insync.replicas", DELETE, ""))


def _settled(talk: Talk) -> None:
    """A change that the broker shows means it shows those before: wait for a marker on a topic of its own."""
    count = sum(step.asked.startswith("INCREMENTAL") or step.asked.startswith("ALTER") for step in talk.steps)
    value = str(1_000_000 + count)
    entry = [{"name": "flush.messages", "config_operation": SET, "value": value}]
    resource = {"resource_type": TOPIC, "resource_name": "plain"}
    talk.quiet(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[{**resource, "configs": entry}], validate_only=False)
    shown: dict[str, Any] = {
        "resources": [{**resource, "configuration_keys": ["flush.messages"]}],
        "include_synonyms": False,
    }
    talk.settle(
        lambda: talk.quiet(ApiKey.DESCRIBE_CONFIGS, 4, **shown, include_documentation=False),
        lambda answer: answer["results"][0]["configs"][0]["value"] == value,
    )


@GROUP.exchange
def incremental_changes_that_are_refused(talk: Talk) -> None:
    cases: Sequence[Sequence[tuple[str, int, str | None]]] = (
        [],
        [("retention.ms", SET, None)],
        [("retention.ms", SET, "")],
        [("retention.ms", SET, "ten")],
        [("retention.ms", SET, "-2")],
        [("retention.ms", APPEND, "1")],
        [("retention.ms", SUBTRACT, "1")],
        [("retention.ms", 4, "1")],
        [("retention.ms", -1, "1")],
        [("no.such.config", SET, "1")],
        [("no.such.config", DELETE, None)],
        [("", SET, "1")],
        [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
        [("cleanup.policy", APPEND, "shrink")],
        [("cleanup.policy", SET, "")],
        [("cleanup.policy", SET, "delete,delete")],
        [("cleanup.policy", APPEND, None)],
        [("min.insync.replicas", SET, "0")],
        [("compression.type", SET, "lzma")],
        [("compression.gzip.level", SET, "12")],
        [("compression.zstd.level", SET, "30")],
        [("segment.bytes", SET, "13")],
        [("segment.ms", SET, "0")],
        [("max.message.bytes", SET, "-1")],
        [("message.timestamp.type", SET, "Sometimes")],
        [("local.retention.bytes", SET, "5"), ("retention.bytes", SET, "1")],
        [("remote.storage.enable", SET, "true")],
    )
    for configs in cases:
        _alter(talk, TOPIC, "plain", *configs)
        _alter(talk, TOPIC, "plain", *configs, only=True)


@GROUP.exchange
def changes_of_resources_that_are_none(talk: Talk) -> None:
    for kind, name in (
        (TOPIC, "nowhere"), (TOPIC, ""), (TOPIC, "a/b"), (BROKER, "2"), (BROKER, "one"), (BROKER, "-1"), (LOGGER, "2"),
        (0, "x"), (1, "x"), (3, "x"), (127, "x"), (-1, "x"),
    ):  # fmt: skip
        _alter(talk, kind, name, ("retention.ms", SET, "1"))
        _replace(talk, kind, name, ("retention.ms", "1"))


@GROUP.exchange
def repeated_resources(talk: Talk) -> None:
    """Only the incremental request: the older one gets no response from Kafka."""
    config = [{"name": "flush.ms", "config_operation": SET, "value": "5"}]
    resource = {"resource_type": TOPIC, "resource_name": "changing", "configs": config}
    other = {"resource_type": TOPIC, "resource_name": "plain", "configs": config}
    talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource, resource, other], validate_only=True)


@GROUP.exchange
def replacing_all_configs(talk: Talk) -> None:
    talk.topic("replaced", configs={"flush.ms": "9"})
    for version in range(3):
        _replace(talk, TOPIC, "replaced", ("retention.ms", str(version)), version=version)
        _settled(talk)
        _describe(talk, (TOPIC, "replaced", ["retention.ms", "flush.ms"]))
    for configs in (
        [("retention.ms", "ten")],
        [("retention.ms", None)],
        [("no.such.config", "1")],
        [("retention.ms", "1"), ("retention.ms", "2")],
        [],
    ):
        _replace(talk, TOPIC, "replaced", *configs)
        _replace(talk, TOPIC, "replaced", *configs, only=True)
    _settled(talk)
    _describe(talk, (TOPIC, "replaced", ["retention.ms", "flush.ms"]))


@GROUP.exchange
def dynamic_brokers(talk: Talk) -> None:
    keys = ["log.cleaner.threads", "log.retention.ms", "max.connections", "num.io.threads"]
    cases: Sequence[tuple[str, Sequence[tuple[str, int, str | None]]]] = (
        ("1", [("log.cleaner.threads", SET, "2")]),
        ("", [("log.cleaner.threads", SET, "2")]),
        ("", [("log.retention.ms", SET, "123456")]),
        ("1", [("log.retention.ms", SET, "654321")]),
        ("", [("log.retention.ms", SET, "ten")]),
        ("", [("node.id", SET, "2")]),
        ("", [("listeners", SET, "PLAINTEXT://:1")]),
        ("", [("no.such.config", SET, "1")]),
        ("", [("num.io.threads", SET, "0")]),
        ("1", [("num.io.threads", SET, "100")]),
        ("", [("max.connections", SET, "99")]),
        ("", [("max.connections", APPEND, "99")]),
        ("", [("log.retention.ms", DELETE, None)]),
        ("1", [("log.retention.ms", DELETE, None)]),
    )
    for name, configs in cases:
        _alter(talk, BROKER, name, *configs, only=True)
        _alter(talk, BROKER, name, *configs)
        _settled(talk)
        _describe(talk, (BROKER, "1", keys))
        _describe(talk, (BROKER, "", None))


@GROUP.exchange
def numbers_of_threads(talk: Talk) -> None:
    """A pool of threads at most doubles and at most halves at a time."""
    keys = ["background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir"]
    cases: Sequence[tuple[str, str, str]] = (
        ("1", "num.io.threads", "3"),
        ("1", "num.io.threads", "4"),
        ("1", "num.io.threads", "8"),
        ("", "num.io.threads", "17"),
        ("", "num.io.threads", "16"),
        ("1", "num.io.threads", "17"),
        ("1", "num.network.threads", "7"),
        ("", "num.network.threads", "6"),
        ("", "background.threads", "21"),
        ("1", "background.threads", "5"),
        ("1", "background.threads", "11"),
        ("", "num.recovery.threads.per.data.dir", "5"),
        ("1", "num.recovery.threads.per.data.dir", "3"),
        ("1", "num.replica.fetchers", "3"),
        ("1", "log.cleaner.threads", "5"),
        ("", "log.cleaner.threads", "1"),
    )
    for name, key, value in cases:
        _alter(talk, BROKER, name, (key, SET, value))
        _settled(talk)
        _describe(talk, (BROKER, "1", [*keys, "num.replica.fetchers", "log.cleaner.threads"]))


@GROUP.exchange
def resources_with_configs(talk: Talk) -> None:
    kinds: Sequence[Any] = (
        (),
        (TOPIC,),
        (BROKER,),
        (LOGGER,),
        (CLIENT_METRICS,),
        (GROUP_RESOURCE,),
        (TOPIC, BROKER, TOPIC),
        (0,),
        (1,),
        (99,),
    )
    for version in (0, 1):
        for wanted in kinds:
            talk.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=wanted)
