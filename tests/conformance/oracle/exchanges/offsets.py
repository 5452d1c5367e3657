"""FindCoordinator, OffsetCommit, OffsetFetch and OffsetDelete, of groups without members and with one."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.values import NOWHERE

GROUP = Group({"offset.metadata.max.bytes": "20"})
_Topic = tuple[str, Any, Sequence[tuple[int, int, int, str | None]]]


@GROUP.exchange
def coordinators(talk: Talk) -> None:
    talk.group("anything")
    for version in range(7):
        for kind in (0, 3, -1):
            talk.ask(ApiKey.FIND_COORDINATOR, version, key="g", key_type=kind, coordinator_keys=("g", "h", "g"))
        talk.ask(ApiKey.FIND_COORDINATOR, version, key="", key_type=0, coordinator_keys=("",))
        talk.ask(ApiKey.FIND_COORDINATOR, version, key="g", key_type=0, coordinator_keys=())


def commit(
    talk: Talk, group: str, *topics: _Topic, version: int = 10, epoch: int = -1, member: str = "", **fields: Any
) -> Any:
    """Offsets as (partition, offset, leader epoch, metadata)."""
    entries = [
        {
            "name": name,
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_leader_epoch": leader_epoch,
                    "committed_metadata": metadata,
                }
                for index, offset, leader_epoch, metadata in partitions
            ],
        }
        for name, topic_id, partitions in topics
    ]
    return talk.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        **{
            "group_id": group,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
            "topics": entries,
            **fields,
        },
    )


def fetched(
    talk: Talk,
    group: str,
    topics: Sequence[tuple[str, Any, Sequence[int]]] | None,
    version: int = 10,
    epoch: int = -1,
    member: str | None = None,
    stable: bool = False,
) -> Any:
    """What a group has committed."""
    entries = None
    if topics is not None:
        entries = [
            {"name": name, "topic_id": topic_id, "partition_indexes": indexes} for name, topic_id, indexes in topics
        ]
    groups = [{"group_id": group, "member_id": member, "member_epoch": epoch, "topics": entries}]
    return talk.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=entries, groups=groups, require_stable=stable)


@GROUP.exchange
def every_version(talk: Talk) -> None:
    topic_id = talk.topic("t", 3)
    for version in range(2, 11):
        group = talk.group(f"simple-{version}")
        commit(talk, group, ("t", topic_id, [(0, 5, 0, "m"), (2, 7, -1, None), (1, 0, 3, "")]), version=version)
        for read in range(1, 11):
            fetched(talk, group, [("t", topic_id, [0, 1, 2])], read)
        for read in range(2, 11):
            fetched(talk, group, None, read)


@GROUP.exchange
def unknown_places(talk: Talk) -> None:
    topic_id = talk.topic("u")
    group = talk.group("places")
    for version in (2, 8, 9, 10):
        commit(
            talk,
            group,
            ("nowhere", NOWHERE, [(0, 1, -1, "")]),
            ("u", topic_id, [(0, 2, -1, ""), (9, 3, -1, ""), (-1, 3, -1, "")]),
            version=version,
        )
        commit(talk, group, ("", UUID(int=0), [(0, 1, -1, "")]), version=version)
        commit(talk, group, version=version)
        commit(talk, group, ("u", topic_id, []), version=version)
    for version in (1, 5, 7, 8, 9, 10):
        fetched(talk, group, [("nowhere", NOWHERE, [0]), ("u", topic_id, [0, 9, -1])], version)
        fetched(talk, group, [("", UUID(int=0), [0])], version)
        fetched(talk, group, [], version)
        fetched(talk, group, [("u", topic_id, [])], version)
        fetched(talk, group, [("u", topic_id, [0, 0]), ("u", topic_id, [0])], version)
        fetched(talk, talk.group("nobody"), [("u", topic_id, [0])], version)
        if version > 1:
            fetched(talk, "nobody", None, version)


@GROUP.exchange
def values_of_all_kinds(talk: Talk) -> None:
    topic_id = talk.topic("v")
    group = talk.group("values")
    for offset in (0, -1, -2, 2**63 - 1):
        commit(talk, group, ("v", topic_id, [(0, offset, -1, "")]))
        fetched(talk, group, [("v", topic_id, [0])])
    for metadata in ("x" * 20, "x" * 21, "ä" * 10, "ä" * 11, "", None):
        commit(talk, group, ("v", topic_id, [(0, 3, -1, metadata)]))
        fetched(talk, group, [("v", topic_id, [0])])
    for epoch in (-1, 0, 5, -2, 2**31 - 1):
        commit(talk, group, ("v", topic_id, [(0, 4, epoch, "")]))
        fetched(talk, group, [("v", topic_id, [0])])
    commit(talk, group, ("v", topic_id, [(0, 1, -1, ""), (0, 2, -1, "")]))
    commit(talk, group, ("v", topic_id, [(0, 1, -1, "")]), ("v", topic_id, [(0, 2, -1, "")]))
    commit(talk, group, ("v", topic_id, [(0, 1, -1, "")]), version=2, retention_time=1_000_000)
    fetched(talk, group, [("v", topic_id, [0])])


@GROUP.exchange
def wrong_members(talk: Talk) -> None:
    topic_id = talk.topic("w")
    group = talk.group("members")
    offset = ("w", topic_id, [(0, 1, -1, "")])
    for epoch, member, instance in (
        (0, "", None),
        (-1, "m", None),
        (3, "m", None),
        (-1, "", "i"),
        (5, "", None),
        (-2, "", None),
    ):
        for version in (2, 7, 8, 9, 10):
            commit(talk, group, offset, version=version, epoch=epoch, member=member, group_instance_id=instance)
    for epoch, reader in ((-1, None), (-1, ""), (0, "m"), (5, "m"), (-1, "m"), (0, None)):
        for version in (8, 9, 10):
            fetched(talk, group, [("w", topic_id, [0])], version, epoch, reader)
            fetched(talk, "nobody", [("w", topic_id, [0])], version, epoch, reader, True)


@GROUP.exchange
def group_ids_that_are_none(talk: Talk) -> None:
    topic_id = talk.topic("n")
    for version in (2, 8, 10):
        commit(talk, "", ("n", topic_id, [(0, 1, -1, "")]), version=version)
    for version in (1, 7, 10):
        fetched(talk, "", [("n", topic_id, [0])], version)


@GROUP.exchange
def several_groups_at_once(talk: Talk) -> None:
    topic_id = talk.topic("s")
    for name in ("s-1", "s-2"):
        commit(talk, talk.group(name), ("s", topic_id, [(0, 1, -1, name)]))
    topics = [{"name": "s", "topic_id": topic_id, "partition_indexes": [0]}]
    wanted: Sequence[tuple[str, Any]] = (("s-1", topics), ("s-2", None), ("s-3", topics), ("", topics), ("s-1", topics))
    groups = [{"group_id": name, "member_id": None, "member_epoch": -1, "topics": entries} for name, entries in wanted]
    for version in (8, 9, 10):
        talk.ask(ApiKey.OFFSET_FETCH, version, groups=groups[:3], require_stable=True)
        talk.ask(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=False)
        talk.ask(ApiKey.OFFSET_FETCH, version, groups=[], require_stable=False)


def _delete(talk: Talk, group: str, *topics: tuple[str, Sequence[int]]) -> None:
    entries = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]} for name, indexes in topics
    ]
    talk.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=entries)


@GROUP.exchange
def deleted_offsets(talk: Talk) -> None:
    topic_id = talk.topic("d", 3)
    group = talk.group("deleting")
    commit(talk, group, ("d", topic_id, [(0, 1, -1, ""), (1, 2, -1, ""), (2, 3, -1, "")]))
    _delete(talk, group, ("d", [0]))
    fetched(talk, group, None)
    _delete(talk, group, ("d", [0, 9, -1]), ("nowhere", [0]))
    _delete(talk, group, ("", [0]))
    _delete(talk, group)
    _delete(talk, group, ("d", []))
    _delete(talk, group, ("d", [1, 1]))
    _delete(talk, group, ("d", [2]), ("d", [2]))
    fetched(talk, group, None)
    _delete(talk, talk.group("nobody"), ("d", [0]))
    _delete(talk, "", ("d", [0]))


@GROUP.exchange
def offsets_of_a_deleted_topic(talk: Talk) -> None:
    topic_id = talk.topic("brief")
    other = talk.topic("lasting")
    group = talk.group("outliving")
    commit(talk, group, ("brief", topic_id, [(0, 1, -1, "")]), ("lasting", other, [(0, 1, -1, "")]))
    talk.quiet(
        ApiKey.DELETE_TOPICS, topics=[{"name": "brief", "topic_id": None}], topic_names=["brief"], timeout=10_000
    )
    groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}]
    talk.settle(
        lambda: talk.quiet(ApiKey.OFFSET_FETCH, 9, groups=groups, require_stable=False),
        lambda answer: len(answer["groups"][0]["topics"]) == 1,
    )
    for version in (2, 9, 10):
        fetched(talk, group, None, version)
    for version in (9, 10):
        fetched(talk, group, [("brief", topic_id, [0])], version)


@GROUP.exchange
def coordinators_of_transactions(talk: Talk) -> None:
    asked: dict[str, Any] = {"key": "t", "key_type": 1, "coordinator_keys": ("t", "u", "t")}
    talk.settle(
        lambda: talk.quiet(ApiKey.FIND_COORDINATOR, 6, **asked),
        lambda answer: answer["coordinators"][0]["error_code"] != "coordinator_not_available",
    )
    talk.ask_each(ApiKey.FIND_COORDINATOR, range(1, 7), **asked)
    talk.ask_each(ApiKey.FIND_COORDINATOR, (1, 4, 6), key="", key_type=1, coordinator_keys=("",))
    talk.ask_each(ApiKey.FIND_COORDINATOR, (5, 6), key_type=2, coordinator_keys=("g", "g:t:0"))
