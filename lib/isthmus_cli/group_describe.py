"""`isthmus group describe`: members, lag of each partition, and the topology and tasks of streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, complete_groups

if TYPE_CHECKING:
    from isthmus_client.admin.group_offsets import Committed
    from isthmus_client.admin.groups import Group, Member
    from isthmus_client.admin.streams_groups import StreamsGroup
    from isthmus_client.client import Client
    from isthmus_client.metadata import TopicPartition

GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_groups)]
_MEMBER_COLUMNS: Final = ("group", "member", "instance", "client", "host", "partitions")
_TASKS: Final = ("active", "standby", "warmup", "target_active", "target_standby", "target_warmup")
_STREAMS_MEMBER_COLUMNS: Final = (
    "group",
    "member",
    "client",
    "host",
    "process",
    "epoch",
    "active",
    "standby",
    "warmup",
)
_TOPOLOGY_COLUMNS: Final = ("group", "subtopology", "sources", "repartition_sources", "changelogs", "repartition_sinks")
_OFFSET_COLUMNS: Final = ("group", "topic", "partition", "committed", "end", "lag", "member")


def describe_command(
    groups: GroupsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE
) -> None:
    """Show the members of groups and the lag of each partition; of streams groups also the topology and the tasks."""
    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import run

    described = run(bootstrap, lambda client: _described(client, groups))
    if output is Output.JSON:
        show_json(described)
        return
    for one in described:
        print(_headline(one))
    streams = [one for one in described if one["topology"] is not None]
    topologies = [{"group": one["group"], **part} for one in streams for part in one["topology"]["subtopologies"]]
    for columns, rows in (
        (_TOPOLOGY_COLUMNS, topologies),
        (_STREAMS_MEMBER_COLUMNS, _rows(described, "members", of_streams=True)),
        (_MEMBER_COLUMNS, _rows(described, "members", of_streams=False)),
        (_OFFSET_COLUMNS, _rows(described, "offsets")),
    ):
        if rows:
            show_table(columns, rows)


def _headline(one: dict[str, Any]) -> str:
    line = (
        f"group {one['group']}  type {one['type']}  state {one['state']}  assignor {one['assignor'] or '-'}"
        f"  coordinator {one['coordinator']}  lag {_lag_text(one)}"
    )
    if one["assignment_epoch"] is None:
        return line
    topology = one["topology"]
    return (
        f"{line}  epoch {one['epoch']}  assignment epoch {one['assignment_epoch']}"
        f"  topology epoch {'-' if topology is None else topology['epoch']}"
    )


def _lag_text(one: dict[str, Any]) -> str:
    if one["lag"] is not None:
        return str(one["lag"])
    known = [offset["lag"] for offset in one["offsets"] if offset["lag"] is not None]
    return f"at least {sum(known)}, {len(one['offsets']) - len(known)} of {len(one['offsets'])} partitions unknown"


def _rows(described: list[dict[str, Any]], kind: str, *, of_streams: bool | None = None) -> list[dict[str, Any]]:
    """The members or the offsets of groups, by default of all types; tasks as Kafka's command shows them."""
    return [
        {"group": one["group"], **entry, **{name: _tasks(entry[name]) for name in _TASKS if name in entry}}
        for one in described
        if of_streams is None or of_streams == (one["assignment_epoch"] is not None)
        for entry in one[kind]
    ]


def _tasks(tasks: dict[str, list[int]]) -> list[str]:
    return [f"{part}:[{','.join(map(str, partitions))}]" for part, partitions in sorted(tasks.items())]


async def _described(client: Client, group_ids: list[str]) -> list[dict[str, Any]]:
    from isthmus_client.admin import group_offsets
    from isthmus_client.admin.groups import describe
    from isthmus_client.errors import Refused
    from isthmus_client.requests_by_broker import results

    groups = results(await describe(client, group_ids))
    coordinators = await client.coordinators(group_ids)
    described = []
    for group in groups.values():
        coordinator = coordinators[group.group_id]
        committed = await group_offsets.fetch(client, group.group_id)
        offsets = await _offsets(client, group, committed)
        described.append(
            {
                "group": group.group_id,
                "type": group.type,
                "state": group.state,
                "protocol": group.protocol_type,
                "assignor": group.assignor,
                "coordinator": None if isinstance(coordinator, Refused) else coordinator.node_id,
                "epoch": group.epoch,
                "assignment_epoch": None if group.streams is None else group.streams.assignment_epoch,
                "topology": None if group.streams is None else _topology(group.streams),
                "members": [_member(member) for member in group.members],
                "offsets": offsets,
                "lag": _total_lag(offsets),
            }
        )
    return described


def _total_lag(offsets: list[dict[str, Any]]) -> int | None:
    """The lag of all partitions; None if that of one is unknown."""
    lags = [offset["lag"] for offset in offsets]
    return None if None in lags else sum(lags)


def _topology(group: StreamsGroup) -> dict[str, Any] | None:
    if group.topology is None:
        return None
    return {
        "epoch": group.topology.epoch,
        "subtopologies": [
            {
                "subtopology": part.subtopology_id,
                "sources": list(part.source_topics),
                "repartition_sources": list(part.repartition_source_topics),
                "changelogs": list(part.changelog_topics),
                "repartition_sinks": list(part.repartition_sink_topics),
            }
            for part in group.topology.subtopologies
        ],
    }


def _member(member: Member) -> dict[str, Any]:
    described = {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "epoch": member.epoch,
        "topics": list(member.topics),
        "partitions": [str(partition) for partition in member.partitions],
    }
    if member.streams is None:
        return described
    now, target = member.streams.assignment, member.streams.target
    tasks = (now.active, now.standby, now.warmup, target.active, target.standby, target.warmup)
    return {
        **described,
        "process": member.streams.process_id,
        "topology_epoch": member.streams.topology_epoch,
        "endpoint": member.streams.endpoint,
        **{name: {part: list(each) for part, each in these.items()} for name, these in zip(_TASKS, tasks, strict=True)},
    }


async def _offsets(client: Client, group: Group, committed: dict[TopicPartition, Committed]) -> list[dict[str, Any]]:
    """Every partition that is assigned or has an offset; the lag of a deleted partition is unknown."""
    from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets

    owners = {partition: member.member_id for member in group.members for partition in member.partitions}
    partitions = sorted({*owners, *committed})
    ends = await list_offsets(client, dict.fromkeys(partitions, int(At.LATEST)))
    rows = []
    for partition in partitions:
        listed = ends[partition]
        end = listed.offset if isinstance(listed, ListedOffset) else None
        offset = committed[partition].offset if partition in committed else None
        known = end is not None and offset is not None
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset,
                "end": end,
                "lag": max(0, (end or 0) - (offset or 0)) if known else None,
                "member": owners.get(partition),
            }
        )
    return rows
