"""The KIP-848 consumer group protocol: ConsumerGroupHeartbeat, ConsumerGroupDescribe, and groups that change their protocol."""

from collections.abc import Callable
from typing import Any

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.exchanges.offsets import commit, fetched
from tests.conformance.oracle.talk import Talk

GROUP = Group(
    {
        "group.consumer.max.size": "3",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.min.assignment.interval.ms": "0",
    }
)
_BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT


def _values(group: str, member: str, epoch: int, **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": -1,
        "subscribed_topic_names": None,
        "server_assignor": None,
        "topic_partitions": None,
        **fields,
    }


def _beat(talk: Talk, group: str, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    return talk.ask(_BEAT, version, **_values(group, member, epoch, **fields))


def _join(talk: Talk, group: str, member: str, *topics: str, version: int = 1, **fields: Any) -> Any:
    first = {"rebalance_timeout": 60_000, "subscribed_topic_names": topics, "topic_partitions": (), **fields}
    return _beat(talk, group, member, 0, version, **first)


def _until(talk: Talk, group: str, member: str, epoch: int, wanted: Callable[[Any], bool]) -> Any:
    """Heartbeats without a record until one brings what the exchange waits for."""
    return talk.settle(lambda: talk.quiet(_BEAT, 1, **_values(group, member, epoch)), wanted)


def _owned(answer: Any) -> Any:
    """The partitions that a response assigns, as the next heartbeat reports them."""
    return answer["assignment"]["topic_partitions"]


def _describe(talk: Talk, *groups: str, version: int = 1) -> None:
    talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=groups, include_authorized_operations=False)


@GROUP.exchange
def a_life(talk: Talk) -> None:
    talk.topic("life", 3)
    for version in (0, 1):
        group = talk.group(f"life-{version}")
        joined = _join(talk, group, "m" if version else "", "life", version=version)
        member, epoch = joined["member_id"], joined["member_epoch"]
        _describe(talk, group, version=version)
        _beat(talk, group, member, epoch, version)
        _beat(talk, group, member, epoch, version, topic_partitions=_owned(joined))
        _describe(talk, group, version=version)
        talk.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=(group,), include_authorized_operations=False)
        _beat(talk, group, member, -1, version)
        _describe(talk, group, version=version)


@GROUP.exchange
def first_heartbeats_that_are_refused(talk: Talk) -> None:
    group = talk.group("refused")
    for version in (0, 1):
        for fields in (
            {"subscribed_topic_names": None},
            {"topic_partitions": None},
            {"topic_partitions": [{"topic_id": None, "partitions": [0]}]},
            {"rebalance_timeout": -1},
            {"rebalance_timeout": 0},
            {"server_assignor": ""},
            {"server_assignor": "nonsense"},
            {"instance_id": ""},
            {"rack_id": ""},
            {"subscribed_topic_names": ("",)},
            {"subscribed_topic_names": ("a/b",)},
        ):
            _join(talk, group, "refused", "life", version=version, **fields)
        _join(talk, "", "refused", "life", version=version)
        _join(talk, group, " ", "life", version=version)
    _join(talk, group, "", "life", version=1)
    _join(talk, group, "regex", subscribed_topic_names=None, subscribed_topic_regex="(")
    _join(talk, group, "x" * 400, "life")
    _describe(talk, group)


@GROUP.exchange
def epochs_that_are_refused(talk: Talk) -> None:
    group = talk.group("epochs")
    joined = _join(talk, group, "m", "life")
    for epoch in (-3, -2, -1, 1, 7):
        _beat(talk, group, "stranger", epoch)
        _beat(talk, "nobody", "stranger", epoch)
    number = joined["member_epoch"]
    for epoch in (-3, -2, number + 1, number + 5, number - 2):
        _beat(talk, group, "m", epoch)
    _beat(talk, group, "m", number)
    _join(talk, group, "m", "life")
    _beat(talk, group, "m", -1, instance_id="static")
    _beat(talk, group, "m", -1)
    _beat(talk, group, "m", number)


@GROUP.exchange
def two_members(talk: Talk) -> None:
    talk.topic("shared", 4)
    group = talk.group("pair")
    for assignor in ("uniform", "range"):
        names = (f"{assignor}-a", f"{assignor}-b")
        first = _join(talk, group, names[0], "shared", server_assignor=assignor)
        owned = _owned(first)
        _beat(talk, group, names[0], first["member_epoch"], topic_partitions=owned)
        second = _join(talk, group, names[1], "shared", server_assignor=assignor)
        _describe(talk, group)
        fewer = _beat(talk, group, names[0], first["member_epoch"])
        _beat(talk, group, names[1], second["member_epoch"])
        kept = _owned(fewer)
        _beat(talk, group, names[0], fewer["member_epoch"], topic_partitions=kept)
        more = _beat(talk, group, names[1], second["member_epoch"])
        _describe(talk, group)
        _beat(talk, group, names[0], -1)
        _beat(talk, group, names[1], more["member_epoch"], topic_partitions=_owned(more))
        _describe(talk, group)
        _beat(talk, group, names[1], -1)


@GROUP.exchange
def changed_subscriptions(talk: Talk) -> None:
    group = talk.group("changing")
    joined = _join(talk, group, "m", "life")
    epoch = _beat(talk, group, "m", joined["member_epoch"], topic_partitions=_owned(joined))["member_epoch"]
    for topics in (("life", "shared"), ("shared",), ("nowhere",), ()):
        answer = _beat(talk, group, "m", epoch, subscribed_topic_names=topics)
        owned = answer["assignment"]["topic_partitions"] if answer["assignment"] else ()
        epoch = _beat(talk, group, "m", answer["member_epoch"], topic_partitions=owned)["member_epoch"]
        _describe(talk, group)
    _beat(talk, group, "m", -1)


@GROUP.exchange
def a_topic_that_comes_later(talk: Talk) -> None:
    group = talk.group("early")
    joined = _join(talk, group, "m", "later")
    talk.topic("later", 2)
    changed = _until(talk, group, "m", joined["member_epoch"], lambda answer: answer["assignment"] is not None)
    talk.note(_BEAT, "the assignment", changed)
    _beat(talk, group, "m", changed["member_epoch"], topic_partitions=_owned(changed))
    _describe(talk, group)
    _beat(talk, group, "m", -1)


@GROUP.exchange
def regular_expressions(talk: Talk) -> None:
    group = talk.group("regex")
    named = [{"topic_id": None, "name": name} for name in ("life", "shared")]
    talk.ask(ApiKey.METADATA, 13, topics=named, allow_auto_topic_creation=False)
    joined = _join(talk, group, "m", subscribed_topic_regex="li.*|shar[de]+")
    owned = _until(
        talk, group, "m", joined["member_epoch"], lambda answer: bool(answer["assignment"] and _owned(answer))
    )
    talk.note(_BEAT, "the assignment", owned)
    _beat(talk, group, "m", owned["member_epoch"], topic_partitions=_owned(owned))
    _describe(talk, group)
    _beat(talk, group, "m", owned["member_epoch"], subscribed_topic_regex="[")
    _beat(talk, group, "m", -1)


@GROUP.exchange
def static_members(talk: Talk) -> None:
    group = talk.group("static")
    joined = _join(talk, group, "a", "life", instance_id="i")
    _beat(talk, group, "a", joined["member_epoch"], topic_partitions=_owned(joined), instance_id="i")
    _join(talk, group, "b", "life", instance_id="i")
    _beat(talk, group, "a", joined["member_epoch"], instance_id="other")
    _beat(talk, group, "a", -2, instance_id="i")
    _describe(talk, group)
    back = _join(talk, group, "b", "life", instance_id="i")
    _beat(talk, group, "b", back["member_epoch"], instance_id="i")
    _beat(talk, group, "a", joined["member_epoch"], instance_id="i")
    _describe(talk, group)
    _beat(talk, group, "b", -1, instance_id="i")
    _describe(talk, group)


@GROUP.exchange
def too_many_members(talk: Talk) -> None:
    group = talk.group("full")
    for number in range(4):
        _join(talk, group, f"m-{number}", "life")


@GROUP.exchange
def offsets_of_members(talk: Talk) -> None:
    topic_id = talk.topic("offsets")
    group = talk.group("committing")
    joined = _join(talk, group, "m", "offsets")
    epoch = joined["member_epoch"]
    offset = ("offsets", topic_id, [(0, 3, -1, "")])
    for version in (2, 8, 9, 10):
        for number, member in (
            (epoch, "m"),
            (epoch + 1, "m"),
            (epoch - 1, "m"),
            (epoch, "stranger"),
            (-1, ""),
            (-1, "m"),
        ):
            commit(talk, group, offset, version=version, epoch=number, member=member)
    for version in (8, 9, 10):
        for number, name in (
            (epoch, "m"),
            (epoch + 1, "m"),
            (epoch - 1, "m"),
            (epoch, "stranger"),
            (-1, None),
            (-1, "m"),
        ):
            fetched(talk, group, [("offsets", topic_id, [0])], version, number, name)
    talk.ask(
        ApiKey.OFFSET_DELETE, 0, group_id=group, topics=[{"name": "offsets", "partitions": [{"partition_index": 0}]}]
    )
    talk.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(group,))
    _beat(talk, group, "m", -1)
    talk.ask(
        ApiKey.OFFSET_DELETE, 0, group_id=group, topics=[{"name": "offsets", "partitions": [{"partition_index": 0}]}]
    )
    talk.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(group,))


@GROUP.exchange
def groups_described(talk: Talk) -> None:
    for version in (0, 1):
        _describe(talk, "full", "nobody", "", "full", version=version)
        _describe(talk, version=version)
    talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=("full",), include_authorized_operations=True)
    for version in (0, 3, 4, 5):
        talk.ask(ApiKey.LIST_GROUPS, version, states_filter=(), types_filter=())
    talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=("consumer",))
    talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=("empty",), types_filter=("consumer",))


_SUBSCRIBED = b"\0\1" + b"\0\0\0\1" + b"\0\4life" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
"""What a classic consumer subscribed to `life` sends as its metadata: version 1, no user data, no owned partitions."""


def _classic(talk: Talk, group: str, member: str, metadata: bytes = _SUBSCRIBED, kind: str = "consumer") -> Any:
    return talk.ask(
        ApiKey.JOIN_GROUP,
        9,
        group_id=group,
        session_timeout=45_000,
        rebalance_timeout=45_000,
        member_id=member,
        group_instance_id=None,
        protocol_type=kind,
        protocols=[{"name": "range", "metadata": metadata}],
    )


@GROUP.exchange
def a_classic_member_in_a_consumer_group(talk: Talk) -> None:
    group = talk.group("mixed")
    joined = _join(talk, group, "new", "life")
    _beat(talk, group, "new", joined["member_epoch"], topic_partitions=_owned(joined))
    _classic(talk, group, "stranger")
    _classic(talk, group, "", b"nonsense")
    _classic(talk, group, "", kind="connect")
    old = _classic(talk, group, "")["member_id"]
    generation = _classic(talk, group, old)["generation_id"]
    talk.ask(
        ApiKey.SYNC_GROUP, 5, group_id=group, generation_id=generation, member_id=old, group_instance_id=None,
        protocol_type="consumer", protocol_name="range", assignments=(),
    )  # fmt: skip
    talk.ask(ApiKey.HEARTBEAT, 4, group_id=group, generation_id=generation, member_id=old, group_instance_id=None)
    _describe(talk, group)
    _beat(talk, group, "new", -1)
    talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=())


@GROUP.exchange
def a_consumer_member_in_a_classic_group(talk: Talk) -> None:
    """Who gets which partition depends on the hash of an id that is drawn, so that part of the response is left out."""
    group = talk.group("upgraded")
    old = _classic(talk, group, "")["member_id"]
    generation = _classic(talk, group, old)["generation_id"]

    def join() -> None:
        first: dict[str, Any] = {
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": ("life",),
            "topic_partitions": (),
        }
        joined = talk.quiet(_BEAT, 1, **_values(group, "new", 0, **first))
        talk.note(_BEAT, "joined", [joined["error_code"], joined["member_epoch"]])

    join()
    share = b"\0\1" + b"\0\0\0\1" + b"\0\4life" + b"\0\0\0\2\0\0\0\0\0\0\0\1" + b"\xff\xff\xff\xff"
    talk.ask(
        ApiKey.SYNC_GROUP, 5, group_id=group, generation_id=generation, member_id=old, group_instance_id=None,
        protocol_type="consumer", protocol_name="range", assignments=[{"member_id": old, "assignment": share}],
    )  # fmt: skip
    join()
    talk.ask(ApiKey.HEARTBEAT, 4, group_id=group, generation_id=generation, member_id=old, group_instance_id=None)
    _beat(talk, group, "new", -1)
    talk.ask(ApiKey.LEAVE_GROUP, 5, group_id=group, members=[{"member_id": old, "group_instance_id": None}])
    _describe(talk, group)
