"""CreateTopics, DeleteTopics and CreatePartitions, with the messages of their refusals."""

from collections.abc import Sequence
from typing import Any

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.values import NOWHERE, creatable, create

GROUP = Group({"num.partitions": "2"})
_CREATE = ApiKey.CREATE_TOPICS


@GROUP.exchange
def every_version_creates(talk: Talk) -> None:
    for version in range(2, 8):
        talk.ask(_CREATE, version, **create(creatable(f"made-by-{version}", 2)))
        talk.ask(_CREATE, version, **create(creatable(f"made-by-{version}", 2)))
        talk.ask(_CREATE, version, **create(creatable(f"checked-by-{version}", 2), validate_only=True))


@GROUP.exchange
def defaults(talk: Talk) -> None:
    for version in (2, 3, 4, 5, 7):
        talk.ask(_CREATE, version, **create(creatable(f"default-{version}", -1, -1)))
        talk.ask(_CREATE, version, **create(creatable(f"half-default-{version}", 3, -1)))
        talk.ask(_CREATE, version, **create(creatable(f"other-default-{version}", -1, 1)))


@GROUP.exchange
def names_that_are_refused(talk: Talk) -> None:
    for name in (
        "",
        ".",
        "..",
        "a/b",
        "a b",
        "ä",
        "x" * 249,
        "x" * 250,
        "a\0b",
        "made.by-2",
        "made_by",
        "made.by",
        "__consumer_offsets",
    ):
        talk.ask(_CREATE, 7, **create(creatable(name)))


@GROUP.exchange
def counts_that_are_refused(talk: Talk) -> None:
    for partitions, replicas in (
        (0, 1),
        (-2, 1),
        (1, 0),
        (1, -2),
        (1, 2),
        (1, 32767),
        (0, 0),
        (2**31 - 1, 1),
        (10_001, 1),
    ):
        talk.ask(_CREATE, 7, **create(creatable("counted", partitions, replicas)))
        talk.ask(_CREATE, 7, **create(creatable("counted", partitions, replicas), validate_only=True))


@GROUP.exchange
def assignments(talk: Talk) -> None:
    cases: Sequence[Sequence[tuple[int, Sequence[int]]]] = (
        [(0, [1])],
        [(0, [1]), (1, [1])],
        [(1, [1])],
        [(0, [1]), (2, [1])],
        [(0, [])],
        [(0, [1, 1])],
        [(0, [7])],
        [(0, [1, 7])],
        [(0, [-1])],
        [(0, [1]), (0, [1])],
        [(0, [1]), (1, [1, 2])],
        [(-1, [1])],
    )
    for number, assigned in enumerate(cases):
        talk.ask(_CREATE, 7, **create(creatable(f"assigned-{number}", -1, -1, assignments=assigned)))
    talk.ask(_CREATE, 7, **create(creatable("assigned-and-counted", 1, -1, assignments=cases[0])))
    talk.ask(_CREATE, 7, **create(creatable("assigned-and-replicated", -1, 1, assignments=cases[0])))


@GROUP.exchange
def configs(talk: Talk) -> None:
    cases: Sequence[Sequence[tuple[str, str | None]]] = (
        [("retention.ms", "1000")],
        [("retention.ms", "ten")],
        [("retention.ms", "-2")],
        [("retention.ms", None)],
        [("no.such.config", "1")],
        [("", "1")],
        [("cleanup.policy", "compact,delete")],
        [("cleanup.policy", "shrink")],
        [("cleanup.policy", "")],
        [("compression.type", "lzma")],
        [("min.insync.replicas", "0")],
        [("min.insync.replicas", "2")],
        [("retention.ms", "1"), ("retention.ms", "2")],
        [("segment.bytes", "1")],
        [("segment.bytes", "2147483648")],
        [("segment.bytes", "1048576"), ("max.message.bytes", "-1")],
        [("message.timestamp.type", "Sometimes")],
        [("message.timestamp.before.max.ms", "-1")],
        [("unclean.leader.election.enable", "maybe")],
        [("unclean.leader.election.enable", "TRUE")],
        [("local.retention.ms", "5"), ("retention.ms", "1")],
        [("remote.storage.enable", "true")],
        [("flush.ms", " 7 ")],
        [("min.cleanable.dirty.ratio", "1.5")],
        [("leader.replication.throttled.replicas", "0:1,1:2")],
        [("leader.replication.throttled.replicas", "everything")],
    )
    for number, given in enumerate(cases):
        talk.ask(_CREATE, 7, **create(creatable(f"configured-{number}", configs=given)))
        talk.ask(_CREATE, 7, **create(creatable(f"configured-only-{number}", configs=given), validate_only=True))


@GROUP.exchange
def several_in_one_request(talk: Talk) -> None:
    talk.ask(_CREATE, 7, **create(creatable("first"), creatable("made-by-2"), creatable("a/b"), creatable("second", 0)))
    talk.ask_each(_CREATE, **create(creatable("twin"), creatable("twin"), creatable("only")))
    talk.ask_each(_CREATE, **create())


def _delete_named(talk: Talk, version: int, *names: str | None) -> Any:
    topics = [{"name": name, "topic_id": None} for name in names]
    return talk.ask(ApiKey.DELETE_TOPICS, version, topic_names=names, topics=topics, timeout=10_000)


@GROUP.exchange
def deletes_by_name(talk: Talk) -> None:
    for version in range(1, 7):
        talk.topic(f"gone-{version}")
        _delete_named(talk, version, f"gone-{version}", "nowhere")
        _delete_named(talk, version, f"gone-{version}")
        _delete_named(talk, version, "", "a/b")
        _delete_named(talk, version)
        talk.topic(f"twice-{version}")
        _delete_named(talk, version, f"twice-{version}", f"twice-{version}")


@GROUP.exchange
def deletes_by_id(talk: Talk) -> None:
    def delete(*topics: tuple[str | None, Any]) -> None:
        entries = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
        talk.ask(ApiKey.DELETE_TOPICS, 6, topics=entries, timeout=10_000)

    first, second, third = (talk.topic(f"by-id-{number}") for number in range(3))
    delete((None, first), (None, NOWHERE))
    delete((None, first))
    delete((None, second), ("by-id-1", None))
    delete(("by-id-1", second))
    delete((None, None))
    delete((None, third), (None, third))


@GROUP.exchange
def a_topic_made_again_has_another_id(talk: Talk) -> None:
    for _ in range(2):
        talk.ask(_CREATE, 7, **create(creatable("phoenix")))
        _delete_named(talk, 6, "phoenix")


def _grow(
    talk: Talk, *topics: tuple[str, int, Sequence[Sequence[int]] | None], only: bool = False, version: int = 3
) -> None:
    entries = []
    for name, count, assigned in topics:
        brokers = None if assigned is None else [{"broker_ids": ids} for ids in assigned]
        entries.append({"name": name, "count": count, "assignments": brokers})
    talk.ask(ApiKey.CREATE_PARTITIONS, version, topics=entries, timeout=10_000, validate_only=only)


@GROUP.exchange
def more_partitions(talk: Talk) -> None:
    talk.topic("growing")
    for version in range(4):
        _grow(talk, ("growing", 2 + version, None), version=version)
        _grow(talk, ("growing", 2 + version, None), version=version)
        _grow(talk, ("growing", 20, None), only=True, version=version)
    for count in (1, 0, -1):  # more than 10,000 at once leave Kafka's controller without a leader for a while
        _grow(talk, ("growing", count, None))
    _grow(talk, ("nowhere", 3, None), ("", 3, None), ("a/b", 3, None))
    _grow(talk)


@GROUP.exchange
def more_partitions_with_assignments(talk: Talk) -> None:
    talk.topic("assigned")
    cases: Sequence[Sequence[Sequence[int]]] = ([], [[1]], [[7]], [[1], [1]], [[]], [[1, 1]], [[1, 7]], [[-1]])
    for assigned in cases:
        _grow(talk, ("assigned", 2, assigned))
    _grow(talk, ("assigned", 4, [[1], [1]]), only=True)
    _grow(talk, ("assigned", 4, [[1], [1]]))
    _grow(talk, ("assigned", 6, None), ("assigned", 7, None), ("growing", 9, None))
