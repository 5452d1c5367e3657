"""The KIP-1071 streams group protocol: StreamsGroupHeartbeat and StreamsGroupDescribe."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.exchanges.offsets import commit, fetched
from tests.conformance.oracle.talk import Talk

GROUP = Group(
    {
        "group.streams.max.size": "3",
        "group.streams.assignment.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
    }
)
_BEAT: Final = ApiKey.STREAMS_GROUP_HEARTBEAT
_GROUP_RESOURCE: Final = 32
_TOPIC_RESOURCE: Final = 2
_SET: Final = 0
_NO_TASKS: Final[Mapping[str, Any]] = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}


def internal_topic(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> dict[str, Any]:
    """A topic that the application wants to be created; dots of a config's name are underscores here."""
    entries = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": replicas, "topic_configs": entries}


def part(name: str, *sources: str, **fields: Any) -> dict[str, Any]:
    """A subtopology."""
    return {
        "subtopology_id": name,
        "source_topics": sources,
        "source_topic_regex": (),
        "state_changelog_topics": (),
        "repartition_sink_topics": (),
        "repartition_source_topics": (),
        "copartition_groups": (),
        **fields,
    }


def topology_of(*parts: dict[str, Any], epoch: int = 0) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": parts}


def _together(sources: Sequence[int] = (), repartitions: Sequence[int] = ()) -> list[dict[str, Any]]:
    """One copartition group."""
    return [{"source_topics": sources, "source_topic_regex": (), "repartition_source_topics": repartitions}]


def _values(group: str, member: str, epoch: int, **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": -1,
        "topology": None,
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "process_id": None,
        "user_endpoint": None,
        "client_tags": None,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
        **fields,
    }


def _joining(topology: dict[str, Any] | None, process: str = "p", **fields: Any) -> dict[str, Any]:
    return {
        "rebalance_timeout": 60_000,
        "topology": topology,
        "process_id": process,
        "client_tags": (),
        **_NO_TASKS,
        **fields,
    }


def beat(talk: Talk, group: str, member: str, epoch: int, **fields: Any) -> Any:
    return talk.ask(_BEAT, 0, **_values(group, member, epoch, **fields))


def join(
    talk: Talk, group: str, member: str, topology: dict[str, Any] | None, process: str = "p", **fields: Any
) -> Any:
    return beat(talk, group, member, 0, **_joining(topology, process, **fields))


def _until(talk: Talk, wanted: Callable[[Any], bool], group: str, member: str, epoch: int, **fields: Any) -> Any:
    """Heartbeats without a record until one brings what the exchange waits for."""
    return talk.settle(lambda: talk.quiet(_BEAT, 0, **_values(group, member, epoch, **fields)), wanted)


def tasks_in(answer: Any) -> dict[str, Any]:
    """The tasks that a response assigns, as the next heartbeat reports them."""
    return {kind: answer[kind] for kind in _NO_TASKS}


def _describe(talk: Talk, *groups: str, operations: bool = False) -> None:
    talk.ask(ApiKey.STREAMS_GROUP_DESCRIBE, 0, group_ids=groups, include_authorized_operations=operations)


def configure(talk: Talk, group: str, **settings: str) -> None:
    """Change a group's own settings, and wait until the broker has them."""
    entries = [
        {"name": f"streams.{name.replace('_', '.')}", "config_operation": _SET, "value": value}
        for name, value in settings.items()
    ]
    resource: dict[str, Any] = {"resource_type": _GROUP_RESOURCE, "resource_name": group}
    talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[{**resource, "configs": entries}], validate_only=False)
    shown: dict[str, Any] = {
        "resources": [{**resource, "configuration_keys": [entries[-1]["name"]]}],
        "include_synonyms": False,
        "include_documentation": False,
    }
    talk.settle(
        lambda: talk.quiet(ApiKey.DESCRIBE_CONFIGS, 4, **shown),
        lambda answer: answer["results"][0]["configs"][0]["value"] == entries[-1]["value"],
    )


_COPY: Final = topology_of(part("0", "life"))


@GROUP.exchange
def a_life(talk: Talk) -> None:
    talk.topic("life", 3)
    group = talk.group("life")
    joined = join(talk, group, "m", _COPY)
    epoch = joined["member_epoch"]
    _describe(talk, group)
    beat(talk, group, "m", epoch)
    beat(talk, group, "m", epoch, **tasks_in(joined))
    _describe(talk, group)
    talk.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=(group,), include_authorized_operations=False)
    talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=(group,), include_authorized_operations=False)
    talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=("streams",))
    beat(talk, group, "m", -1)
    _describe(talk, group)
    beat(talk, group, "m", epoch)
    join(talk, group, "m", _COPY)
    _describe(talk, group)
    beat(talk, group, "m", -1)


@GROUP.exchange
def first_heartbeats_that_are_refused(talk: Talk) -> None:
    group = talk.group("refused")
    task = [{"subtopology_id": "0", "partitions": [0]}]
    offset = [{"subtopology_id": "0", "partition": 0, "offset": 1}]
    for fields in (
        {"rebalance_timeout": -1},
        {"active_tasks": None},
        {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None},
        {"active_tasks": task},
        {"standby_tasks": task},
        {"warmup_tasks": task},
        {"instance_id": "i"},
        {"instance_id": ""},
        {"rack_id": ""},
        {"task_offsets": ()},
        {"task_offsets": offset},
        {"task_end_offsets": offset},
    ):
        join(talk, group, "refused", _COPY, **fields)
    join(talk, group, "refused", None)
    join(talk, "", "refused", _COPY)
    join(talk, group, " ", _COPY)
    join(talk, group, "refused", topology_of(part("0", "life"), epoch=-1))
    _describe(talk, group)


@GROUP.exchange
def topologies_that_are_refused(talk: Talk) -> None:
    group = talk.group("topologies")
    for wrong in (
        part("0", "life", source_topic_regex=("li.*",)),
        part("0", "life", state_changelog_topics=[internal_topic("log", 2)]),
        part("0", "__consumer_offsets"),
        part("0", "life", repartition_sink_topics=("__transaction_state",)),
        part("0", "a/b"),
        part("0", ""),
        part("0", "life", state_changelog_topics=[internal_topic("x" * 250)]),
        part("0"),
        part("0", "life", repartition_source_topics=[internal_topic("never-a-sink")]),
        part("0", repartition_source_topics=[internal_topic("loop")], repartition_sink_topics=("loop",)),
        part("0", "life", copartition_groups=_together([3])),
    ):
        join(talk, group, "refused", topology_of(wrong))
    join(talk, group, "refused", topology_of())
    join(talk, group, "refused", topology_of(part("0", "life"), part("0", "life")))
    _describe(talk, group)


@GROUP.exchange
def epochs_that_are_refused(talk: Talk) -> None:
    group = talk.group("epochs")
    joined = join(talk, group, "m", _COPY)
    for epoch in (-3, -2, -1, 1, 7):
        beat(talk, group, "stranger", epoch)
        beat(talk, "nobody", "stranger", epoch)
    number = joined["member_epoch"]
    for epoch in (-3, -2, number + 1, number + 5, number - 1, number - 2):
        beat(talk, group, "m", epoch)
    beat(talk, group, "m", number, active_tasks=())
    beat(talk, group, "m", number, topology=_COPY)
    no_such = [{"subtopology_id": "7", "partitions": [0]}]
    beat(talk, group, "m", number, **{**_NO_TASKS, "active_tasks": no_such})
    no_such = [{"subtopology_id": "0", "partitions": [3]}]
    beat(talk, group, "m", number, **{**_NO_TASKS, "standby_tasks": no_such})
    beat(talk, group, "m", number)
    join(talk, group, "m", _COPY)
    again = join(talk, group, "m", _COPY, rack_id="r")
    beat(talk, group, "m", number, **tasks_in(joined))
    beat(talk, group, "m", number)
    beat(talk, group, "m", again["member_epoch"])
    beat(talk, group, "m", -1, instance_id="static")
    beat(talk, group, "m", -1)
    beat(talk, group, "m", number)


@GROUP.exchange
def two_processes(talk: Talk) -> None:
    talk.topic("shared", 4)
    topology = topology_of(part("0", "shared"), part("1", "life"))
    group = talk.group("pair")
    first = join(talk, group, "a", topology, "p")
    beat(talk, group, "a", first["member_epoch"], **tasks_in(first))
    second = join(talk, group, "b", topology, "q")
    _describe(talk, group)
    fewer = beat(talk, group, "a", first["member_epoch"])
    _describe(talk, group)
    beat(talk, group, "b", second["member_epoch"])
    released = beat(talk, group, "a", fewer["member_epoch"], **tasks_in(fewer))
    more = beat(talk, group, "b", second["member_epoch"])
    beat(talk, group, "a", released["member_epoch"])
    _describe(talk, group)
    beat(talk, group, "a", -1)
    _describe(talk, group)
    beat(talk, group, "b", more["member_epoch"], **tasks_in(more))
    _describe(talk, group)
    beat(talk, group, "b", -1)


@GROUP.exchange
def two_threads_of_a_process(talk: Talk) -> None:
    group = talk.group("threads")
    topology = topology_of(part("0", "shared"))
    first = join(talk, group, "a", topology, "p")
    second = join(talk, group, "b", topology, "p")
    fewer = beat(talk, group, "a", first["member_epoch"])
    beat(talk, group, "a", fewer["member_epoch"], **tasks_in(fewer))
    beat(talk, group, "b", second["member_epoch"])
    _describe(talk, group)
    beat(talk, group, "a", -1)
    beat(talk, group, "b", -1)


@GROUP.exchange
def too_many_members(talk: Talk) -> None:
    group = talk.group("full")
    topology = topology_of(part("0", "life"))
    for number in range(4):
        join(talk, group, f"m-{number}", topology, f"p-{number}")
    join(talk, group, "m-0", topology, "p-0")


@GROUP.exchange
def source_topics_that_come_later(talk: Talk) -> None:
    group = talk.group("early")
    topology = topology_of(part("0", "later", "life"))
    joined = join(talk, group, "m", topology)
    _describe(talk, group)
    beat(talk, group, "m", joined["member_epoch"])
    talk.topic("later", 5)
    ready = _until(talk, lambda answer: not answer["status"], group, "m", joined["member_epoch"])
    talk.note(_BEAT, "the assignment", ready)
    beat(talk, group, "m", ready["member_epoch"], **tasks_in(ready))
    _describe(talk, group)
    beat(talk, group, "m", -1)
    many = topology_of(part("0", *(f"missing-{number}" for number in range(5))))
    join(talk, talk.group("many"), "m", many)


_COUNT: Final = topology_of(
    part("0", "life", repartition_sink_topics=("app-count-repartition",)),
    part(
        "1",
        repartition_source_topics=[internal_topic("app-count-repartition", cleanup_policy="delete")],
        state_changelog_topics=[
            internal_topic("app-count-changelog", 0, 1, cleanup_policy="compact", segment_bytes="1048576")
        ],
    ),
)


@GROUP.exchange
def internal_topics(talk: Talk) -> None:
    """Which of the two topics exists first is not certain: the number of heartbeats before both are there is left out."""
    group = talk.group("app")
    configure(talk, group, num_standby_replicas="1")
    joined = join(talk, group, "a", _COUNT, "p")
    _describe(talk, group)
    ready = _until(talk, lambda answer: not answer["status"], group, "a", joined["member_epoch"])
    talk.note(_BEAT, "the tasks", tasks_in(ready))
    for name in ("app-count-repartition", "app-count-changelog"):
        talk.ask(ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": name}], allow_auto_topic_creation=False)
        resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": name}
        keys = ["cleanup.policy", "segment.bytes"]
        talk.ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[{**resource, "configuration_keys": keys}],
            include_synonyms=False,
            include_documentation=False,
        )
    second = join(talk, group, "b", _COUNT, "q")
    owned = tasks_in(ready)
    epoch = ready["member_epoch"]
    for _ in range(2):
        answer = talk.quiet(_BEAT, 0, **_values(group, "a", epoch, **owned))
        epoch = answer["member_epoch"]
        owned = tasks_in(answer) if answer["active_tasks"] is not None else owned
    talk.note(_BEAT, "what is left", owned)
    other = talk.quiet(_BEAT, 0, **_values(group, "b", second["member_epoch"]))
    talk.note(_BEAT, "what the other has", tasks_in(other))
    beat(talk, group, "b", -1)
    beat(talk, group, "a", -1)


@GROUP.exchange
def topics_with_the_wrong_number_of_partitions(talk: Talk) -> None:
    talk.topic("wrong-changelog", 1)
    stateful = part("0", "life", state_changelog_topics=[internal_topic("wrong-changelog")])
    group = talk.group("wrong")
    join(talk, group, "m", topology_of(stateful))
    _describe(talk, group)
    for number, wrong in enumerate(
        (
            part("0", "life", "shared", copartition_groups=_together([0, 1])),
            part(
                "0",
                "life",
                repartition_source_topics=[internal_topic("fixed", 7)],
                copartition_groups=_together([0], [0]),
            ),
            part(
                "0",
                repartition_source_topics=[internal_topic("fixed", 7), internal_topic("other", 8)],
                copartition_groups=_together([], [0, 1]),
            ),
        )
    ):
        join(talk, talk.group(f"wrong-{number}"), "m", topology_of(wrong))


@GROUP.exchange
def internal_topics_that_cannot_be_created(talk: Talk) -> None:
    group = talk.group("impossible")
    topology = topology_of(part("0", "life", state_changelog_topics=[internal_topic("too-many-replicas", 0, 3)]))
    joined = join(talk, group, "m", topology)
    refused = _until(
        talk,
        lambda answer: "Creation failed" in answer["status"][0]["status_detail"],
        group,
        "m",
        joined["member_epoch"],
    )
    talk.note(_BEAT, "the reason", refused)


@GROUP.exchange
def other_topologies(talk: Talk) -> None:
    group = talk.group("changing")
    topology = topology_of(part("0", "life"), epoch=3)
    joined = join(talk, group, "m", topology)
    join(talk, group, "m", topology_of(part("0", "shared"), epoch=3))
    join(talk, group, "m", topology_of(part("0", "life"), epoch=4))
    join(talk, group, "stale", topology_of(part("0", "shared"), epoch=2), "q")
    _describe(talk, group)
    beat(talk, group, "m", joined["member_epoch"])
    beat(talk, group, "stale", -1)
    beat(talk, group, "m", -1)


@GROUP.exchange
def a_shutdown(talk: Talk) -> None:
    group = talk.group("shutdown")
    topology = topology_of(part("0", "life"))
    first = join(talk, group, "a", topology, "p", shutdown_application=True)
    epoch = beat(talk, group, "a", first["member_epoch"])["member_epoch"]
    second = join(talk, group, "b", topology, "q")
    beat(talk, group, "stranger", epoch, shutdown_application=True)
    beat(talk, group, "b", second["member_epoch"])
    beat(talk, group, "a", epoch, shutdown_application=True)
    beat(talk, group, "b", second["member_epoch"], shutdown_application=True)
    beat(talk, group, "a", -1)
    beat(talk, group, "b", second["member_epoch"])
    beat(talk, group, "b", -1, shutdown_application=True)
    join(talk, group, "c", topology, "p")


@GROUP.exchange
def an_initial_delay(talk: Talk) -> None:
    group = talk.group("delayed")
    configure(talk, group, initial_rebalance_delay_ms="2000")
    topology = topology_of(part("0", "shared"))
    join(talk, group, "a", topology, "p")
    _describe(talk, group)
    join(talk, group, "b", topology, "q")
    join(talk, group, "a", topology, "p")
    beat(talk, group, "a", 0)
    ready = talk.settle(
        lambda: talk.quiet(_BEAT, 0, **_values(group, "a", 0, **_joining(topology, "p"))),
        lambda answer: not answer["status"],
    )
    talk.note(_BEAT, "afterwards", ready)
    join(talk, group, "b", topology, "q")
    _describe(talk, group)


@GROUP.exchange
def an_assignment_interval(talk: Talk) -> None:
    group = talk.group("interval")
    configure(talk, group, assignment_interval_ms="15000")
    topology = topology_of(part("0", "shared"))
    first = join(talk, group, "a", topology, "p")
    join(talk, group, "b", topology, "q")
    beat(talk, group, "a", first["member_epoch"])
    _describe(talk, group)
    configure(talk, group, assignment_interval_ms="0")
    beat(talk, group, "a", first["member_epoch"])
    _describe(talk, group)


@GROUP.exchange
def endpoints(talk: Talk) -> None:
    group = talk.group("endpoints")
    topology = topology_of(part("0", "shared"), part("1", "life"))
    tags = [{"key": "zone", "value": "z"}, {"key": "cluster", "value": "c"}]
    first = join(
        talk,
        group,
        "a",
        topology,
        "p",
        user_endpoint={"host": "h", "port": 65_000},
        client_tags=tags,
        rack_id="r",
    )
    epoch = first["member_epoch"]
    known = beat(talk, group, "a", epoch, endpoint_information_epoch=-1)["endpoint_information_epoch"]
    _describe(talk, group)
    second = join(talk, group, "b", topology, "q", user_endpoint={"host": "i", "port": 1})
    fewer = beat(talk, group, "a", epoch, endpoint_information_epoch=known)
    beat(talk, group, "a", fewer["member_epoch"], **tasks_in(fewer))
    beat(talk, group, "b", second["member_epoch"])
    last = beat(talk, group, "a", epoch + 1, endpoint_information_epoch=-1)
    beat(talk, group, "a", epoch + 1, endpoint_information_epoch=last["endpoint_information_epoch"])


@GROUP.exchange
def endpoints_without_source_topics(talk: Talk) -> None:
    group = talk.group("endpoint-alone")
    join(talk, group, "m", topology_of(part("0", "never-there")), user_endpoint={"host": "h", "port": 1})
    talk.quiet(_BEAT, 0, **_values(group, "m", -1))
    talk.quiet(ApiKey.DELETE_GROUPS, 2, groups_names=(group,))


@GROUP.exchange
def endpoints_of_sources_of_different_sizes(talk: Talk) -> None:
    group = talk.group("endpoint-partitions")
    talk.topic("few")
    topology = topology_of(part("0", "few", "life"))
    first = join(talk, group, "a", topology, "p", user_endpoint={"host": "h", "port": 1})
    join(talk, group, "b", topology, "q")
    fewer = beat(talk, group, "a", first["member_epoch"])
    beat(talk, group, "a", first["member_epoch"], **tasks_in(fewer))
    join(talk, group, "b", topology, "q", user_endpoint={"host": "i", "port": 2}, endpoint_information_epoch=-1)


@GROUP.exchange
def what_is_named_twice(talk: Talk) -> None:
    group = talk.group("twice")
    tags = [{"key": "zone", "value": value} for value in ("y", "z")]
    join(talk, group, "m", _COPY, client_tags=tags)
    joined = join(talk, group, "m", topology_of(part("0", "life", "life")))
    twice = [{"subtopology_id": "0", "partitions": [index, index]} for index in (0, 1)]
    beat(talk, group, "m", joined["member_epoch"], active_tasks=twice, standby_tasks=(), warmup_tasks=())
    _describe(talk, group)
    beat(talk, group, "m", -1)


@GROUP.exchange
def a_shutdown_by_a_member_that_is_gone(talk: Talk) -> None:
    group = talk.group("gone")
    joined = join(talk, group, "m", _COPY)
    beat(talk, group, "stranger", -1, shutdown_application=True)
    beat(talk, group, "m", joined["member_epoch"])
    beat(talk, group, "m", -1)


@GROUP.exchange
def standby_replicas_that_change(talk: Talk) -> None:
    talk.topic("state-changelog", 3)
    group = talk.group("standbys")
    topology = topology_of(part("0", "life", state_changelog_topics=[internal_topic("state-changelog")]))
    first = join(talk, group, "a", topology, "p")
    join(talk, group, "b", topology, "q")
    configure(talk, group, num_standby_replicas="1")
    fewer = beat(talk, group, "a", first["member_epoch"])
    _describe(talk, group)
    beat(talk, group, "a", fewer["member_epoch"], **tasks_in(fewer))
    _describe(talk, group)


@GROUP.exchange
def offsets_of_members(talk: Talk) -> None:
    topic_id = talk.topic("offsets")
    other_id = talk.topic("elsewhere")
    group = talk.group("committing")
    topology = topology_of(part("0", "offsets"))
    first = join(talk, group, "m", topology)["member_epoch"]
    epoch = join(talk, group, "m", topology, rack_id="r")["member_epoch"]
    offset = ("offsets", topic_id, [(0, 3, -1, "")])
    for version in (2, 8, 9, 10):
        for number, member in (
            (epoch, "m"),
            (epoch + 1, "m"),
            (first, "m"),
            (first - 1, "m"),
            (epoch, "stranger"),
            (-1, ""),
            (-1, "m"),
        ):
            commit(talk, group, offset, version=version, epoch=number, member=member)
    commit(talk, group, ("elsewhere", other_id, [(0, 3, -1, "")]), epoch=first, member="m")
    commit(talk, group, ("elsewhere", other_id, [(0, 3, -1, "")]), epoch=epoch, member="m")
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
    deleted = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("offsets", "elsewhere")]
    talk.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=deleted)
    talk.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(group,))
    beat(talk, group, "m", -1)
    commit(talk, group, offset, epoch=-1)
    talk.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=deleted)
    talk.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(group,))
    _describe(talk, group)


def _classic(talk: Talk, group: str, member: str) -> Any:
    return talk.ask(
        ApiKey.JOIN_GROUP,
        9,
        group_id=group,
        session_timeout=45_000,
        rebalance_timeout=45_000,
        member_id=member,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\1\0\0\0\1\0\4life\xff\xff\xff\xff\0\0\0\0"}],
    )


def _consumer(talk: Talk, group: str, epoch: int = 0) -> Any:
    first: dict[str, Any] = {"rebalance_timeout": 60_000, "subscribed_topic_names": ("life",), "topic_partitions": ()}
    return talk.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        **{
            "group_id": group,
            "member_id": "consumer",
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "server_assignor": None,
            "topic_partitions": None,
            **(first if epoch == 0 else {}),
        },
    )


@GROUP.exchange
def groups_of_other_types(talk: Talk) -> None:
    topology = topology_of(part("0", "life"))
    group = talk.group("typed")
    join(talk, group, "m", topology)
    _classic(talk, group, "")
    _classic(talk, group, "m")
    _consumer(talk, group)
    _consumer(talk, group, 3)
    talk.ask(ApiKey.HEARTBEAT, 4, group_id=group, generation_id=2, member_id="m", group_instance_id=None)
    talk.ask(ApiKey.LEAVE_GROUP, 5, group_id=group, members=[{"member_id": "m", "group_instance_id": None}])
    talk.ask(
        ApiKey.SYNC_GROUP, 5, group_id=group, generation_id=2, member_id="m", group_instance_id=None,
        protocol_type="consumer", protocol_name="range", assignments=(),
    )  # fmt: skip
    beat(talk, group, "m", -1)
    _consumer(talk, group)
    _describe(talk, group)
    classic = talk.group("classic")
    _classic(talk, classic, "")
    join(talk, classic, "m", topology)
    beat(talk, classic, "m", 3)
    beat(talk, classic, "m", -1)
    _describe(talk, classic)
    _classic(talk, classic, "")
    _describe(talk, classic)
    consumer = talk.group("consumer")
    _consumer(talk, consumer)
    join(talk, consumer, "m", topology)
    beat(talk, consumer, "m", 3)
    _consumer(talk, consumer, -1)
    join(talk, consumer, "m", topology)


@GROUP.exchange
def a_group_with_offsets_only(talk: Talk) -> None:
    topic_id = talk.topic("kept")
    group = talk.group("simple")
    commit(talk, group, ("kept", topic_id, [(0, 5, -1, "")]))
    joined = join(talk, group, "m", topology_of(part("0", "kept")))
    fetched(talk, group, [("kept", topic_id, [0])], 10, joined["member_epoch"], "m")
    _describe(talk, group)


@GROUP.exchange
def groups_described(talk: Talk) -> None:
    _describe(talk, "full", "nobody", "", "full")
    _describe(talk)
    _describe(talk, "life", operations=True)
    for version in (0, 3, 4, 5):
        talk.ask(ApiKey.LIST_GROUPS, version, states_filter=(), types_filter=())
    talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=("Streams",))
    for state in ("empty", "Stable", "NotReady", "not_ready", "assigning", "Reconciling"):
        talk.ask(ApiKey.LIST_GROUPS, 5, states_filter=(state,), types_filter=("streams",))


@GROUP.exchange
def groups_without_the_feature(talk: Talk) -> None:
    def change(level: int) -> None:
        update = [{"feature": "streams.version", "max_version_level": level, "upgrade_type": 2 if level == 0 else 1}]
        talk.ask(ApiKey.UPDATE_FEATURES, 2, feature_updates=update, validate_only=False, timeout=10_000)
        wanted = "unsupported_version" if level == 0 else "none"
        talk.settle(
            lambda: talk.quiet(_BEAT, 0, **_values("life", "m", 0, **_joining(_COPY))),
            lambda answer: answer["error_code"] == wanted,
        )

    change(0)
    beat(talk, "life", "m", 1)
    _describe(talk, "life", "nobody", "")
    join(talk, "life", "m", _COPY)
    change(1)
    beat(talk, "life", "m", -1)
