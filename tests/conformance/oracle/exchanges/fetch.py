"""Fetch with its sessions, ListOffsets, DeleteRecords and OffsetForLeaderEpoch."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from isthmus_wire.apis import ApiKey
from isthmus_wire.records import NewRecord, build_batch

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.values import LONG_AGO, NAMED, NOWHERE, batch, fetch, fetch_partition, fetch_topic, store

GROUP = Group()
_FETCH = ApiKey.FETCH


def _filled(talk: Talk, name: str, *counts: int, partitions: int = 1) -> Any:
    """A topic whose partition 0 holds batches of so many records."""
    topic_id = talk.topic(name, partitions)
    for count in counts:
        store(talk, name, 0, batch(count))
    return topic_id


@GROUP.exchange
def every_version(talk: Talk) -> None:
    topic_id = _filled(talk, "read", 2, 3, partitions=2)
    topic = fetch_topic("read", topic_id, fetch_partition(0), fetch_partition(1))
    talk.ask_each(_FETCH, **fetch(topic))
    talk.ask_each(_FETCH, **fetch(topic, isolation_level=1))


@GROUP.exchange
def offsets(talk: Talk) -> None:
    topic_id = _filled(talk, "offsets", 2, 3)
    for offset in (0, 1, 2, 4, 5, 6, 100, -1, -2, 2**63 - 1):
        for version in (4, 12, 18):
            talk.ask(_FETCH, version, **fetch(fetch_topic("offsets", topic_id, fetch_partition(0, offset))))


@GROUP.exchange
def limits(talk: Talk) -> None:
    topic_id = _filled(talk, "limits", 1, 1, 1)
    for size in (-1, 0, 1, 60, 100, 170, 250, 10_000):
        topic = fetch_topic("limits", topic_id, fetch_partition(0, 0, size))
        talk.ask(_FETCH, 18, **fetch(topic))
        talk.ask(_FETCH, 18, **fetch(fetch_topic("limits", topic_id, fetch_partition(0)), max_bytes=size))
        talk.ask(_FETCH, 4, **fetch(topic))
    talk.ask(_FETCH, 18, **fetch(topic, min_bytes=-1, max_wait=-1))
    talk.ask(_FETCH, 18, **fetch(fetch_topic("limits", topic_id, fetch_partition(0, 3)), min_bytes=1, max_wait=30))


@GROUP.exchange
def limits_over_partitions(talk: Talk) -> None:
    topic_id = talk.topic("wide", 3)
    for partition in range(3):
        store(talk, "wide", partition, batch(1))
        store(talk, "wide", partition, batch(1))
    for size in (1, 95, 190, 280, 10_000):
        topic = fetch_topic("wide", topic_id, *(fetch_partition(index) for index in range(3)))
        talk.ask(_FETCH, 18, **fetch(topic, max_bytes=size))
        narrow = fetch_topic("wide", topic_id, *(fetch_partition(index, 0, 95) for index in (2, 0, 1)))
        talk.ask(_FETCH, 18, **fetch(narrow, max_bytes=size))


@GROUP.exchange
def unknown_places(talk: Talk) -> None:
    topic_id = _filled(talk, "places", 1)
    for version in (4, 7, 12, 13, 15, 18):
        talk.ask(_FETCH, version, **fetch(fetch_topic("nowhere", NOWHERE, fetch_partition(0))))
        talk.ask(
            _FETCH,
            version,
            **fetch(fetch_topic("places", topic_id, fetch_partition(9), fetch_partition(0), fetch_partition(-1))),
        )
        talk.ask(_FETCH, version, **fetch(fetch_topic("", UUID(int=0), fetch_partition(0))))
        talk.ask(_FETCH, version, **fetch())
        talk.ask(_FETCH, version, **fetch(fetch_topic("places", topic_id)))


@GROUP.exchange
def repeated_entries(talk: Talk) -> None:
    topic_id = _filled(talk, "repeated", 1)
    once = fetch_topic("repeated", topic_id, fetch_partition(0))
    twice = fetch_topic("repeated", topic_id, fetch_partition(0), fetch_partition(0, 1))
    for version in (4, 12, 18):
        talk.ask(_FETCH, version, **fetch(twice))
        talk.ask(_FETCH, version, **fetch(once, once))


@GROUP.exchange
def leader_epochs(talk: Talk) -> None:
    topic_id = _filled(talk, "epochs", 2)
    for epoch in (-2, -1, 0, 1, 99):
        for version in (9, 12, 18):
            one = fetch_topic("epochs", topic_id, fetch_partition(0, current_leader_epoch=epoch))
            talk.ask(_FETCH, version, **fetch(one))
        for offset in (0, 1, 2, 3):
            told = fetch_topic("epochs", topic_id, fetch_partition(0, offset, last_fetched_epoch=epoch))
            talk.ask(_FETCH, 18, **fetch(told))


@GROUP.exchange
def other_clusters_and_replicas(talk: Talk) -> None:
    topic_id = _filled(talk, "replicas", 1)
    topic = fetch_topic("replicas", topic_id, fetch_partition(0))
    for replica in (-2, -1, 1, 2, 99):
        talk.ask(_FETCH, 12, **fetch(topic, replica_id=replica))
        talk.ask(_FETCH, 18, **fetch(topic, replica_state={"replica_id": replica, "replica_epoch": -1}))
    talk.ask(_FETCH, 18, **fetch(topic, cluster_id="somewhere else"))
    talk.ask(_FETCH, 18, **fetch(topic, isolation_level=2))
    talk.ask(_FETCH, 18, **fetch(topic, isolation_level=-1))
    talk.ask(_FETCH, 18, **fetch(topic, rack_id="elsewhere"))


def _session(talk: Talk, session: int, epoch: int, *topics: Mapping[str, Any], version: int = 18, **fields: Any) -> int:
    answer = talk.ask(_FETCH, version, **fetch(*topics, session_id=session, session_epoch=epoch, **fields))
    number: int = answer["session_id"]
    return number


@GROUP.exchange
def sessions(talk: Talk) -> None:
    for version in (7, 12, 18):
        name = f"session-{version}"
        topic_id = _filled(talk, name, 1, partitions=3)

        def wanted(*partitions: Mapping[str, Any], topic: str = name, topic_id: Any = topic_id) -> Mapping[str, Any]:
            return fetch_topic(topic, topic_id, *partitions)

        def step(session: int, epoch: int, *topics: Mapping[str, Any], version: int = version, **fields: Any) -> int:
            return _session(talk, session, epoch, *topics, version=version, **fields)

        session = step(0, 0, wanted(*(fetch_partition(index) for index in range(3))))
        step(session, 1)
        step(session, 2, wanted(fetch_partition(0, 1)))
        step(session, 3)
        store(talk, name, 1, batch(1))
        step(session, 4)
        step(session, 4)
        step(session, 6)
        step(session, 5, forgotten_topics_data=[{"topic": name, "topic_id": topic_id, "partitions": [1]}])
        step(session, 6, wanted(fetch_partition(1)))
        step(session, 7, wanted(fetch_partition(9)))
        step(session, 8, fetch_topic("nowhere", NOWHERE, fetch_partition(0)))
        step(session, 9)
        step(session, -1)
        step(session, 10)


@GROUP.exchange
def sessions_under_a_limit(talk: Talk) -> None:
    """Partitions take turns: the next fetch begins with those that got nothing."""
    topic_id = talk.topic("turns", 4)
    for partition in range(4):
        for _ in range(3):
            store(talk, "turns", partition, batch(1))
    wanted = fetch_topic("turns", topic_id, *(fetch_partition(index) for index in (2, 0, 3, 1)))
    session = _session(talk, 0, 0, wanted, max_bytes=95)
    for epoch in range(1, 7):
        _session(talk, session, epoch, max_bytes=95)
    for epoch in range(7, 10):
        _session(talk, session, epoch, max_bytes=400)
    _session(talk, session, 10, fetch_topic("turns", topic_id, fetch_partition(3, 2)), max_bytes=95)
    for epoch in range(11, 14):
        _session(talk, session, epoch, max_bytes=95)


@GROUP.exchange
def sessions_that_are_none(talk: Talk) -> None:
    topic_id = _filled(talk, "no-session", 1)
    topic = fetch_topic("no-session", topic_id, fetch_partition(0))
    for session, epoch in ((77, 1), (0, 1), (0, -1), (77, -1), (77, 0), (0, -2), (0, 2**31 - 1), (-5, 1)):
        for version in (7, 12, 18):
            talk.ask(_FETCH, version, **fetch(topic, session_id=session, session_epoch=epoch))


@GROUP.exchange
def sessions_across_versions(talk: Talk) -> None:
    """A session that starts with names cannot continue with ids, and vice versa."""
    topic_id = _filled(talk, "across", 1)
    topic = fetch_topic("across", topic_id, fetch_partition(0))
    by_name = _session(talk, 0, 0, topic, version=12)
    _session(talk, by_name, 1, version=13)
    _session(talk, by_name, -1, version=12)
    by_id = _session(talk, 0, 0, topic, version=13)
    _session(talk, by_id, 1, version=12)
    _session(talk, by_id, -1, version=13)


@GROUP.exchange
def a_topic_deleted_in_a_session(talk: Talk) -> None:
    topic_id = _filled(talk, "doomed", 1)
    session = _session(talk, 0, 0, fetch_topic("doomed", topic_id, fetch_partition(0)))
    gone = [{"name": "doomed", "topic_id": None}]
    talk.quiet(ApiKey.DELETE_TOPICS, topics=gone, topic_names=["doomed"], timeout=10_000)
    one = fetch(fetch_topic("doomed", topic_id, fetch_partition(0)))
    talk.settle(
        lambda: talk.quiet(_FETCH, **one),
        lambda answer: answer["responses"][0]["partitions"][0]["error_code"] == "unknown_topic_id",
    )
    _session(talk, session, 1)
    _session(talk, session, 2)
    _session(talk, session, -1)


def _list(
    talk: Talk, version: int, *topics: tuple[str, Sequence[tuple[int, int, int]]], isolation: int = 0, replica: int = -1
) -> Any:
    """Topics with (partition, leader epoch, timestamp)."""
    entries = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
                for index, epoch, timestamp in partitions
            ],
        }
        for name, partitions in topics
    ]
    return talk.ask(
        ApiKey.LIST_OFFSETS, version, replica_id=replica, isolation_level=isolation, topics=entries, timeout=5000
    )


@GROUP.exchange
def offsets_by_time(talk: Talk) -> None:
    talk.topic("timed", 2)
    for number in (3, 1, 2):
        records = [NewRecord(None, b"v", LONG_AGO + 10_000 * number + step) for step in (0, 500, 100)]
        store(talk, "timed", 0, build_batch(records))
    for timestamp in (
        -1, -2, -3, -4, -5, -6, -7, 0, LONG_AGO, LONG_AGO + 10_000, LONG_AGO + 10_001, LONG_AGO + 20_100, LONG_AGO + 20_101,
        LONG_AGO + 30_000, LONG_AGO + 30_500, LONG_AGO + 30_501, 2**63 - 1,
    ):  # fmt: skip
        for version in range(1, 12):
            _list(talk, version, ("timed", [(0, -1, timestamp), (1, -1, timestamp)]))
        _list(talk, 11, ("timed", [(0, -1, timestamp)]), isolation=1)


@GROUP.exchange
def offsets_of_unknown_places(talk: Talk) -> None:
    for version in (1, 4, 6, 11):
        _list(talk, version)
        _list(talk, version, ("nowhere", [(0, -1, -1)]), ("timed", [(9, -1, -1), (-1, -1, -2)]))
        _list(talk, version, ("", [(0, -1, -1)]), ("timed", []))
        _list(talk, version, ("timed", [(0, -1, -1), (0, -1, -2)]))
        _list(talk, version, ("timed", [(0, -1, -1)]), ("timed", [(1, -1, -1)]))
        for replica in (-2, 1, 2, 99):
            _list(talk, version, ("timed", [(0, -1, -1)]), replica=replica)
    for epoch in (-2, 0, 1, 99):
        for version in (4, 11):
            _list(talk, version, ("timed", [(0, epoch, -1)]))
    _list(talk, 11, ("timed", [(0, -1, -1)]), isolation=5)


def _cut(talk: Talk, version: int, *topics: tuple[str, Sequence[tuple[int, int]]]) -> None:
    entries = [
        {"name": name, "partitions": [{"partition_index": index, "offset": offset} for index, offset in partitions]}
        for name, partitions in topics
    ]
    talk.ask(ApiKey.DELETE_RECORDS, version, topics=entries, timeout=5000)


@GROUP.exchange
def deleted_records(talk: Talk) -> None:
    topic_id = _filled(talk, "cut", 2, 2, 2, partitions=2)
    for version, offset in ((0, 1), (1, 2), (2, 3), (2, 3), (2, 1), (2, 0), (2, 7), (2, -2), (2, -5), (2, 2**63 - 1)):
        _cut(talk, version, ("cut", [(0, offset)]))
        for wanted in (0, 2, 3):
            talk.ask(_FETCH, 18, **fetch(fetch_topic("cut", topic_id, fetch_partition(0, wanted))))
        _list(talk, 11, ("cut", [(0, -1, -2), (0, -1, -1)]))
        _list(talk, 11, ("cut", [(0, -1, LONG_AGO)]))
    _cut(talk, 2, ("cut", [(0, -1)]))
    _list(talk, 11, ("cut", [(0, -1, -2)]), ("cut", [(0, -1, -3)]))
    for version in range(3):
        _cut(talk, version, ("nowhere", [(0, 1)]), ("cut", [(9, 1), (1, 0), (-1, 0)]))
        _cut(talk, version)
        _cut(talk, version, ("", [(0, 0)]), ("cut", []))
        _cut(talk, version, ("cut", [(0, 6), (0, 5)]))
    _cut(talk, 2, ("__cluster_metadata", [(0, 1)]))


@GROUP.exchange
def times_below_the_start_of_the_log(talk: Talk) -> None:
    """What is deleted is neither the newest record nor found by its time, wherever in a batch the log begins now."""
    talk.topic("cut-by-time")
    for number in (3, 1, 2):
        records = [NewRecord(None, b"v", LONG_AGO + 10_000 * number + step) for step in (0, 500, 100)]
        store(talk, "cut-by-time", 0, build_batch(records))
    for offset in (1, 2, 3, 4, 7, 8, 9):
        _cut(talk, 2, ("cut-by-time", [(0, offset)]))
        for timestamp in (-2, -3, -4, LONG_AGO, LONG_AGO + 10_500, LONG_AGO + 30_000, LONG_AGO + 30_400):
            _list(talk, 11, ("cut-by-time", [(0, -1, timestamp)]))


@GROUP.exchange
def records_of_compacted_and_internal_topics(talk: Talk) -> None:
    talk.topic("compacted", configs={"cleanup.policy": "compact"})
    store(talk, "compacted", 0, batch(2))
    _cut(talk, 2, ("compacted", [(0, 1)]))
    talk.group("makes-offsets")
    _cut(talk, 2, ("__consumer_offsets", [(0, 0)]))


@GROUP.exchange
def ends_of_epochs(talk: Talk) -> None:
    _filled(talk, "history", 2)
    talk.topic("empty")
    for version in range(2, 5):
        for current, epoch in (
            (-1, -1),
            (-1, 0),
            (-1, 1),
            (-1, 99),
            (0, 0),
            (1, 0),
            (99, 0),
            (-2, 0),
            (-1, -2),
            (0, 1),
        ):
            partitions = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
            unknown = [{"partition": 9, "current_leader_epoch": current, "leader_epoch": epoch}]
            topics = [
                {"topic": "history", "partitions": [*partitions, *unknown]},
                {"topic": "empty", "partitions": partitions},
            ]
            talk.ask(
                ApiKey.OFFSET_FOR_LEADER_EPOCH,
                version,
                replica_id=-1,
                topics=[*topics, {"topic": "nowhere", "partitions": partitions}],
            )
        for replica in (-2, -1, 1, 2):
            talk.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=replica, topics=topics[:1])
        talk.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=[])


@GROUP.exchange
def the_metadata_log(talk: Talk) -> None:
    """A broker does not serve its metadata log on a client listener."""
    talk.ask(_FETCH, NAMED, **fetch(fetch_topic("__cluster_metadata", NOWHERE, fetch_partition(0))))
    talk.ask(_FETCH, 18, **fetch(fetch_topic("", UUID(int=1), fetch_partition(0))))
    _list(talk, 11, ("__cluster_metadata", [(0, -1, -1)]))
