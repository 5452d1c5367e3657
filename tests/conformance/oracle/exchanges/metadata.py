"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from typing import Any

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.values import NOWHERE

GROUP = Group()
_ALL: dict[str, Any] = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


def _named(*names: str | None, auto: bool = False, operations: bool = False) -> dict[str, Any]:
    return {
        "topics": [{"topic_id": None, "name": name} for name in names],
        "allow_auto_topic_creation": auto,
        "include_cluster_authorized_operations": operations,
        "include_topic_authorized_operations": operations,
    }


@GROUP.exchange
def an_empty_cluster(talk: Talk) -> None:
    talk.ask(ApiKey.METADATA, 0, topics=())
    talk.ask_each(ApiKey.METADATA, range(1, 14), **_ALL)


@GROUP.exchange
def no_topics(talk: Talk) -> None:
    talk.ask_each(ApiKey.METADATA, **_named())


@GROUP.exchange
def unknown_topics(talk: Talk) -> None:
    talk.ask_each(ApiKey.METADATA, **_named("nowhere"))
    talk.ask_each(ApiKey.METADATA, range(4, 14), **_named("nowhere", auto=True))


@GROUP.exchange
def names_that_are_none(talk: Talk) -> None:
    for name in ("", ".", "..", "a/b", "a b", "ä", "x" * 249, "x" * 250, "a\0b"):
        talk.ask(ApiKey.METADATA, 8, **_named(name))
        talk.ask(ApiKey.METADATA, 13, **_named(name))
        talk.ask(ApiKey.METADATA, 13, **_named(name, auto=True))


@GROUP.exchange
def known_topics(talk: Talk) -> None:
    talk.topic("one", 3)
    talk.topic("two")
    talk.ask_each(ApiKey.METADATA, **_named("one", "two", "nowhere"))
    talk.ask_each(ApiKey.METADATA, range(8, 14), **_named("one", operations=True))
    talk.ask_each(ApiKey.METADATA, range(1, 14), **_ALL)


@GROUP.exchange
def repeated_topics(talk: Talk) -> None:
    for version in (1, 9, 12, 13):
        talk.ask(ApiKey.METADATA, version, **_named("one", "one", "nowhere", "nowhere"))


@GROUP.exchange
def by_id(talk: Talk) -> None:
    known = talk.topic("by-id", 2)
    for version in (10, 11, 12, 13):
        for topics in (
            [{"topic_id": known, "name": None}],
            [{"topic_id": NOWHERE, "name": None}],
            [{"topic_id": known, "name": "by-id"}],
            [{"topic_id": NOWHERE, "name": "by-id"}],
            [{"topic_id": known, "name": None}, {"topic_id": NOWHERE, "name": None}, {"topic_id": known, "name": None}],
            [{"topic_id": known, "name": None}, {"topic_id": None, "name": "two"}],
            [{"topic_id": None, "name": None}],
            [{"topic_id": None, "name": ""}],
        ):
            named = [{**topic, "name": topic["name"] or ""} for topic in topics] if version < 10 else topics
            talk.ask(ApiKey.METADATA, version, topics=named, allow_auto_topic_creation=False)


@GROUP.exchange
def the_cluster(talk: Talk) -> None:
    talk.ask_each(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=False, endpoint_type=1)
    talk.ask_each(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=True, endpoint_type=1)
    for kind in (0, 2, 3, -1):
        talk.ask_each(ApiKey.DESCRIBE_CLUSTER, (1, 2), include_cluster_authorized_operations=False, endpoint_type=kind)
    talk.ask(
        ApiKey.DESCRIBE_CLUSTER,
        2,
        include_cluster_authorized_operations=False,
        endpoint_type=1,
        include_fenced_brokers=True,
    )


def _pages(talk: Talk, names: tuple[str, ...], limit: int, cursor: dict[str, Any] | None) -> None:
    topics = [{"name": name} for name in names]
    talk.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=topics, response_partition_limit=limit, cursor=cursor)


@GROUP.exchange
def topic_partitions(talk: Talk) -> None:
    every = ("one", "two", "by-id")
    for names in ((), every, ("two", "nowhere", "one"), ("one", "one"), ("nowhere",), ("",), ("a/b",)):
        _pages(talk, names, 2000, None)
    for limit in (1, 2, 3, 4, 5, 6, 0, -1, 5000):
        _pages(talk, every, limit, None)


@GROUP.exchange
def topic_partitions_from_a_cursor(talk: Talk) -> None:
    every = ("one", "two", "by-id")
    for topic in ("one", "two", "by-id", "nowhere", "zzz", "aaa", ""):
        for partition in (0, 1, 2, 3, 99, -1):
            _pages(talk, every, 3, {"topic_name": topic, "partition_index": partition})
    _pages(talk, (), 3, {"topic_name": "one", "partition_index": 1})
    _pages(talk, ("one",), 3, {"topic_name": "two", "partition_index": 0})
