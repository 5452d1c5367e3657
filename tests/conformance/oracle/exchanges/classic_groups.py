"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups."""

from collections.abc import Sequence
from typing import Any, Final

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.exchanges.offsets import commit, fetched
from tests.conformance.oracle.talk import MAIN, Pending, Talk

GROUP = Group({"group.max.size": "3", "group.max.session.timeout.ms": "60000"})
_LONG: Final = 50_000
_RANGE: Final = ("range", b"\0\0" + b"\0\0\0\1" + b"\0\5owned" + b"\xff\xff\xff\xff")
_ROBIN: Final = ("roundrobin", b"\0\0" + b"\0\0\0\1" + b"\0\5other" + b"\xff\xff\xff\xff")
"""Protocols with what a consumer of one topic sends; Kafka never responds to a join whose metadata it cannot parse."""
_Protocols = Sequence[tuple[str, bytes]]


def _join(
    talk: Talk,
    group: str,
    member: str = "",
    version: int = 9,
    on: str = MAIN,
    protocols: _Protocols = (_RANGE,),
    **fields: Any,
) -> Pending:
    values = {
        "group_id": group,
        "session_timeout": _LONG,
        "rebalance_timeout": _LONG,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
        **fields,
    }
    return talk.send(ApiKey.JOIN_GROUP, version, on, **values)


def _sync(
    talk: Talk,
    group: str,
    generation: int,
    member: str,
    *shares: tuple[str, bytes],
    version: int = 5,
    on: str = MAIN,
    **fields: Any,
) -> Pending:
    values = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": name, "assignment": share} for name, share in shares],
        **fields,
    }
    return talk.send(ApiKey.SYNC_GROUP, version, on, **values)


def _heartbeat(
    talk: Talk, group: str, generation: int, member: str, version: int = 4, instance: str | None = None, on: str = MAIN
) -> Any:
    return talk.send(
        ApiKey.HEARTBEAT,
        version,
        on,
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
    ).answer()


def _leave(talk: Talk, group: str, *members: tuple[str, str | None], version: int = 5) -> Any:
    entries = [{"member_id": name, "group_instance_id": instance} for name, instance in members]
    return talk.ask(
        ApiKey.LEAVE_GROUP, version, group_id=group, member_id=members[0][0] if members else "", members=entries
    )


def _describe(talk: Talk, *groups: str, version: int = 6) -> None:
    talk.ask(ApiKey.DESCRIBE_GROUPS, version, groups=groups, include_authorized_operations=False)


def _member(talk: Talk, group: str, **fields: Any) -> str:
    """The member id in the response to a first join without one."""
    member: str = _join(talk, group, **fields).answer()["member_id"]
    return member


def _alone(talk: Talk, group: str, **fields: Any) -> tuple[str, int]:
    """A group of one stable member; its id and generation."""
    talk.group(group)
    member = _member(talk, group, **fields)
    generation = _join(talk, group, member, **fields).answer()["generation_id"]
    _sync(talk, group, generation, member, (member, b"all")).answer()
    return member, generation


@GROUP.exchange
def no_groups(talk: Talk) -> None:
    talk.group("nobody")
    for version in range(6):
        talk.ask(ApiKey.LIST_GROUPS, version, states_filter=(), types_filter=())
    for version in range(7):
        _describe(talk, "nobody", version=version)
        _describe(talk, "", version=version)
        _describe(talk, version=version)


@GROUP.exchange
def a_life_in_every_version(talk: Talk) -> None:
    for version in range(10):
        group = talk.group(f"life-{version}")
        first = _join(talk, group, version=version).answer()
        member = first["member_id"]
        joined = first if version < 4 else _join(talk, group, member, version=version).answer()
        _describe(talk, group)
        _sync(talk, group, joined["generation_id"], member, (member, b"all"), version=min(version, 5)).answer()
        _describe(talk, group, version=min(version, 6))
        _heartbeat(talk, group, joined["generation_id"], member, min(version, 4))
        _leave(talk, group, (member, None), version=min(version, 5))
        _describe(talk, group)


@GROUP.exchange
def joins_that_are_refused(talk: Talk) -> None:
    group = talk.group("refused")
    for version in (0, 4, 5, 9):
        for fields in (
            {"session_timeout": 1},
            {"session_timeout": 60_001},
            {"session_timeout": -1},
            {"protocol_type": ""},
            {"protocols": ()},
            {"protocols": (("", b""),)},
            {"member": "never-heard-of"},
            {"rebalance_timeout": -1, "member": "never-heard-of"},
        ):
            _join(talk, group, version=version, **fields).answer()
        _join(talk, "", version=version).answer()
    for version in (5, 9):
        _join(talk, group, version=version, group_instance_id="").answer()
        _join(talk, group, version=version, group_instance_id="a/b").answer()
        _join(talk, group, "never-heard-of", version=version, group_instance_id="static").answer()


@GROUP.exchange
def two_members(talk: Talk) -> None:
    group = "pair"
    first, generation = _alone(talk, group, protocols=(_RANGE, _ROBIN))
    second = _member(talk, group, on="second", protocols=(_ROBIN, _RANGE))
    joining = _join(talk, group, second, on="second", protocols=(_ROBIN, _RANGE))
    talk.settle(
        lambda: talk.quiet(
            ApiKey.HEARTBEAT, 4, group_id=group, generation_id=generation, member_id=first, group_instance_id=None
        ),
        lambda answer: answer["error_code"] == "rebalance_in_progress",
    )
    _heartbeat(talk, group, generation, first)
    _sync(talk, group, generation, first).answer()
    _describe(talk, group)
    again = _join(talk, group, first, protocols=(_RANGE, _ROBIN)).answer()
    joining.answer()
    number = again["generation_id"]
    _describe(talk, group)
    waiting = _sync(talk, group, number, second, on="second")
    _sync(talk, group, number, first, (first, b"one"), (second, b"two")).answer()
    waiting.answer()
    _describe(talk, group)
    _heartbeat(talk, group, number, second)
    _heartbeat(talk, group, generation, first)
    _join(talk, group, second, on="second", protocols=(_ROBIN, _RANGE)).answer()
    _leave(talk, group, (first, None))
    _heartbeat(talk, group, number, second)
    rest = _join(talk, group, second, on="second", protocols=(_ROBIN, _RANGE)).answer()
    _sync(
        talk, group, rest["generation_id"], second, (second, b"all"), on="second", protocol_name="roundrobin"
    ).answer()
    _describe(talk, group)
    _leave(talk, group, (second, None))


@GROUP.exchange
def wrong_generations_and_members(talk: Talk) -> None:
    member, generation = _alone(talk, "alone")
    topic_id = talk.topic("owned")
    for version in (0, 3, 4):
        _heartbeat(talk, "alone", generation, "stranger", version)
        _heartbeat(talk, "alone", generation + 1, member, version)
        _heartbeat(talk, "alone", -1, member, version)
        _heartbeat(talk, "alone", generation, "", version)
        _heartbeat(talk, "nobody", generation, member, version)
        _heartbeat(talk, "", generation, member, version)
    _heartbeat(talk, "alone", generation, member, 4, "static")
    for version in (0, 3, 5):
        _sync(talk, "alone", generation, "stranger", version=version).answer()
        _sync(talk, "alone", generation + 1, member, version=version).answer()
        _sync(talk, "alone", generation, member, version=version).answer()
        _sync(talk, "nobody", 1, "stranger", version=version).answer()
        _sync(talk, "", 1, "stranger", version=version).answer()
    for fields in (
        {"protocol_type": "connect"},
        {"protocol_name": "other"},
        {"protocol_type": None},
        {"protocol_name": None},
    ):
        _sync(talk, "alone", generation, member, **fields).answer()
    offset = ("owned", topic_id, [(0, 3, -1, "")])
    for epoch, name in (
        (generation, member),
        (generation, "stranger"),
        (generation + 1, member),
        (-1, ""),
        (-1, member),
    ):
        for version in (2, 9, 10):
            commit(talk, "alone", offset, version=version, epoch=epoch, member=name)
    fetched(talk, "alone", None)
    talk.ask(
        ApiKey.OFFSET_DELETE, 0, group_id="alone", topics=[{"name": "owned", "partitions": [{"partition_index": 0}]}]
    )
    talk.ask(ApiKey.DELETE_GROUPS, 2, groups_names=("alone",))


@GROUP.exchange
def other_protocols(talk: Talk) -> None:
    _alone(talk, "protocols")
    for version in (3, 9):
        _join(talk, "protocols", on="second", version=version, protocols=(_ROBIN,)).answer()
        _join(talk, "protocols", on="second", version=version, protocol_type="connect").answer()
    _join(talk, "protocols", "never-heard-of", on="second").answer()


@GROUP.exchange
def too_many_members(talk: Talk) -> None:
    """Members count from the assignment of their id, before they join with it."""
    group = talk.group("full")
    for number in range(3):
        _member(talk, group, on=f"member {number}")
    _join(talk, group, on="late", version=3).answer()
    _join(talk, group, on="late", version=9).answer()


@GROUP.exchange
def static_members(talk: Talk) -> None:
    group = talk.group("static")
    for version in (5, 7, 9):
        instance = f"i-{version}"
        joined = _join(talk, group, version=version, group_instance_id=instance).answer()
        member, generation = joined["member_id"], joined["generation_id"]
        sync: dict[str, Any] = {"group_instance_id": instance}
        _sync(talk, group, generation, member, (member, b"all"), **sync).answer()
        _heartbeat(talk, group, generation, member, 4, instance)
        _heartbeat(talk, group, generation, "stranger", 4, instance)
        _heartbeat(talk, group, generation, member, 4, "other")
        _heartbeat(talk, group, generation, "", 4, instance)
        back = _join(talk, group, version=version, group_instance_id=instance).answer()
        _heartbeat(talk, group, back["generation_id"], member, 4, instance)
        _sync(talk, group, back["generation_id"], member, **sync).answer()
        _join(talk, group, member, version=version, group_instance_id=instance).answer()
        _sync(talk, group, back["generation_id"], back["member_id"], (back["member_id"], b"all"), **sync).answer()
        _describe(talk, group)
        _leave(talk, group, ("", "other"))
        _leave(talk, group, (member, instance))
        _leave(talk, group, ("", instance), ("stranger", None), ("", None))
        _describe(talk, group)


@GROUP.exchange
def leaving(talk: Talk) -> None:
    member, _ = _alone(talk, "leaving")
    for version in (0, 2, 3, 4, 5):
        _leave(talk, "leaving", ("stranger", None), version=version)
        _leave(talk, "leaving", ("", None), version=version)
        _leave(talk, "nobody", ("stranger", None), version=version)
        _leave(talk, "", ("stranger", None), version=version)
    _leave(talk, "leaving")
    _leave(talk, "leaving", ("stranger", None), (member, None), (member, None))
    _describe(talk, "leaving")


@GROUP.exchange
def groups_listed(talk: Talk) -> None:
    _alone(talk, "connectors", protocol_type="connect")
    for version in range(6):
        talk.ask(ApiKey.LIST_GROUPS, version, states_filter=(), types_filter=())
    for states in (("Stable",), ("stable",), ("Empty", "Dead"), ("Nonsense",), ("",), ("PreparingRebalance",)):
        talk.ask(ApiKey.LIST_GROUPS, 4, states_filter=states)
        talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=states, types_filter=())
    for types in (("classic",), ("Classic",), ("consumer",), ("nonsense",), ("",), ("classic", "consumer")):
        talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=types)


@GROUP.exchange
def groups_described(talk: Talk) -> None:
    for version in range(7):
        _describe(talk, "alone", "nobody", "alone", "connectors", "", version=version)
    talk.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=("alone",), include_authorized_operations=True)
    talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=("alone", "nobody"), include_authorized_operations=False)


@GROUP.exchange
def groups_deleted(talk: Talk) -> None:
    for version in range(3):
        group = f"finished-{version}"
        member, _ = _alone(talk, group)
        talk.ask(ApiKey.DELETE_GROUPS, version, groups_names=(group,))
        _leave(talk, group, (member, None))
        talk.ask(ApiKey.DELETE_GROUPS, version, groups_names=(group, "nobody", "", "alone"))
        talk.ask(ApiKey.DELETE_GROUPS, version, groups_names=(group,))
        talk.ask(ApiKey.DELETE_GROUPS, version, groups_names=())
        _describe(talk, group)


@GROUP.exchange
def a_session_that_ends(talk: Talk) -> None:
    member, generation = _alone(talk, "expiring", session_timeout=150)
    groups = ("expiring",)
    talk.settle(
        lambda: talk.quiet(ApiKey.DESCRIBE_GROUPS, 6, groups=groups, include_authorized_operations=False),
        lambda answer: answer["groups"][0]["group_state"] == "Empty",
    )
    _describe(talk, "expiring")
    _heartbeat(talk, "expiring", generation, member)
    _join(talk, "expiring", member).answer()
