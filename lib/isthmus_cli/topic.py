"""`isthmus topic`: list, describe, create, alter, delete, and describe replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    complete_topics,
)

if TYPE_CHECKING:
    from isthmus_client.admin.replicas import PartitionStatus
    from isthmus_client.client import Client
    from isthmus_client.errors import ClientError
    from isthmus_client.metadata import Topic, TopicPartition

topic_app = typer.Typer(help="Topics: list, describe, create, alter, delete.", no_args_is_help=True)

NamesArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topics)]
ConfigOption = Annotated[list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="May be repeated.")]
AssignmentOption = Annotated[
    str | None,
    typer.Option(
        metavar="1:2,2:3,...", help="Brokers of each partition: commas between partitions, colons between replicas."
    ),
]
_PARTITION_COLUMNS: Final = ("topic", "partition", "leader", "leader_epoch", "replicas", "in_sync", "offline")
_REPLICA_COLUMNS: Final = (
    *("topic", "partition", "broker", "leader", "observer", "isr_eligible", "in_sync", "caught_up"),
    *("caught_up_lag_ms", "fetch_lag_ms", "log_start", "log_end", "leader_epoch"),
)


@topic_app.command("list")
def list_command(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    internal: Annotated[bool, typer.Option("--internal", help="Internal topics as well.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the topics."""
    from isthmus_client.admin.topics import list_topics

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    topics = run(bootstrap, list_topics)
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(p.replicas) for p in topic.partitions.values()), default=0),
            "internal": topic.is_internal,
            "id": _id(topic),
        }
        for topic in topics.values()
        if internal or not topic.is_internal
    ]
    show_rows(output, ("topic", "partitions", "replicas", *(("internal",) if internal else ()), "id"), rows)


@topic_app.command("describe")
def describe_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", autocompletion=complete_topics, help="By default all.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with out-of-sync replicas.")
    ] = False,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="Only partitions without a leader.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the partitions of topics, and the configs that were set."""
    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import run

    described = run(bootstrap, lambda client: _described(client, names or []))
    for one in described:
        one["partitions"] = [
            row
            for row in one["partitions"]
            if not (under_replicated and len(row["in_sync"]) >= len(row["replicas"]))
            and not (unavailable and row["leader"] is not None)
        ]
    if under_replicated or unavailable:
        described = [one for one in described if one["partitions"]]
    if output is Output.JSON:
        show_json(described)
        return
    for one in described:
        configs = ", ".join(f"{key}={value}" for key, value in one["configs"].items())
        print(f"{one['topic']}  id {one['id']}{f'  {configs}' if configs else ''}")
    show_table(_PARTITION_COLUMNS, [{"topic": one["topic"], **row} for one in described for row in one["partitions"]])


async def _described(client: Client, names: list[str]) -> list[dict[str, Any]]:
    from isthmus_client.admin import configs, topics
    from isthmus_client.requests_by_broker import results
    from isthmus_model.config_resources import ResourceType

    described = await topics.describe(client, names) if names else await topics.list_topics(client)
    resources = [configs.Resource(ResourceType.TOPIC, name) for name in described]
    settings = results(await configs.describe(client, resources)) if resources else {}
    return [
        {
            "topic": topic.name,
            "id": _id(topic),
            "internal": topic.is_internal,
            "configs": {config.name: config.value for config in settings[resource] if config.is_set},
            "partitions": [
                {
                    "partition": p.index,
                    "leader": p.leader if p.leader >= 0 else None,
                    "leader_epoch": p.leader_epoch,
                    "replicas": list(p.replicas),
                    "in_sync": list(p.in_sync),
                    "offline": list(p.offline),
                }
                for p in topic.partitions.values()
            ],
        }
        for topic, resource in zip(described.values(), resources, strict=True)
    ]


@topic_app.command("create")
def create_command(
    names: NamesArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    partitions: Annotated[int, typer.Option("-p", "--partitions", help="By default the broker's default.")] = -1,
    replication_factor: Annotated[
        int, typer.Option("-r", "--replication-factor", help="By default the broker's default.")
    ] = -1,
    replica_assignment: AssignmentOption = None,
    config: ConfigOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="One that exists is no error.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only let the cluster check it.")] = False,
) -> None:
    """Create topics."""
    from isthmus_client.admin.topics import NewTopic, create
    from isthmus_wire.errors import ErrorCode

    from isthmus_cli.session import exit_for, pairs, run

    if replica_assignment is not None and (partitions, replication_factor) != (-1, -1):
        raise typer.BadParameter(
            "it determines partitions and replicas; omit --partitions and --replication-factor",
            param_hint="'--replica-assignment'",
        )
    assignments = dict(enumerate(_assignment(replica_assignment)))
    configs = pairs(config, "--config")
    new_topics = [NewTopic(name, partitions, replication_factor, assignments, configs) for name in names]
    outcomes = run(bootstrap, lambda client: create(client, new_topics, validate_only=dry_run))
    exists = {n for n, e in outcomes.items() if e is not None and e.code is ErrorCode.topic_already_exists}
    if if_not_exists:
        outcomes = {name: None if name in exists else error for name, error in outcomes.items()}
    for name, error in outcomes.items():
        if error is None:
            done = "exists" if name in exists else "can be created" if dry_run else "created"
            print(f"topic {name} {done}")
    exit_for(outcomes)


@topic_app.command("alter")
def alter_command(
    name: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    partitions: Annotated[int | None, typer.Option("-p", "--partitions", help="How many in all; only more.")] = None,
    replica_assignment: AssignmentOption = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="KEY", help="Back to the default.")
    ] = None,
) -> None:
    """Add partitions to a topic, or change its configs."""
    from isthmus_client.admin.configs import Change, Operation

    from isthmus_cli.session import exit_for, pairs, run

    changes = [Change(key, Operation.SET, value) for key, value in pairs(config, "--config").items()]
    changes += [Change(key, Operation.DELETE) for key in delete_config or ()]
    if partitions is None and not changes:
        raise typer.BadParameter("nothing to change; give --partitions, --config or --delete-config")
    placed = _assignment(replica_assignment)
    outcomes = run(bootstrap, lambda client: _alter(client, name, partitions, placed, changes))
    exit_for(outcomes)
    print(f"topic {name} altered")


async def _alter(
    client: Client, name: str, partitions: int | None, placed: list[list[int]], changes: list[Any]
) -> dict[str, Exception | None]:
    from isthmus_client.admin.configs import Resource, alter
    from isthmus_client.admin.topics import create_partitions
    from isthmus_model.config_resources import ResourceType

    outcomes: dict[str, Exception | None] = {}
    if changes:
        resource = Resource(ResourceType.TOPIC, name)
        outcomes["configs"] = (await alter(client, {resource: changes}))[resource]
    if partitions is not None and outcomes.get("configs") is None:
        grown = await create_partitions(client, {name: partitions}, {name: placed} if placed else None)
        outcomes["partitions"] = grown[name]
    return outcomes


@topic_app.command("replicas")
def replicas_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC...]", autocompletion=complete_topics)] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every replica: leader, followers and observers, whether in sync, and lag."""
    from isthmus_client.errors import ClientError

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import exit_for, run

    statuses = run(bootstrap, lambda client: _replicas(client, names))
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "broker": replica.broker,
            "leader": replica.is_leader,
            "observer": replica.is_observer,
            "isr_eligible": replica.is_isr_eligible,
            "in_sync": replica.is_in_isr,
            "caught_up": replica.is_caught_up,
            "caught_up_lag_ms": _known(replica.caught_up_lag_ms),
            "fetch_lag_ms": _known(replica.fetch_lag_ms),
            "log_start": _known(replica.log_start),
            "log_end": _known(replica.log_end),
            "leader_epoch": status.leader_epoch,
        }
        for partition, status in statuses.items()
        if not isinstance(status, ClientError)
        for replica in status.replicas
    ]
    show_rows(output, _REPLICA_COLUMNS, rows)
    exit_for({str(partition): status for partition, status in statuses.items() if isinstance(status, ClientError)})


async def _replicas(client: Client, names: list[str] | None) -> dict[TopicPartition, PartitionStatus | ClientError]:
    from isthmus_client.admin.replicas import replica_status
    from isthmus_client.admin.topics import describe, list_topics
    from isthmus_client.metadata import TopicPartition

    topics = await (describe(client, names) if names else list_topics(client))
    return await replica_status(client, [TopicPartition(t.name, i) for t in topics.values() for i in t.partitions])


def _known(number: int) -> int | None:
    return number if number >= 0 else None


@topic_app.command("delete")
def delete_command(
    names: NamesArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Accept topics that do not exist.")] = False,
) -> None:
    """Delete topics and all their records."""
    from isthmus_client.admin.topics import delete
    from isthmus_wire.errors import ErrorCode

    from isthmus_cli.session import exit_for, run

    outcomes = run(bootstrap, lambda client: delete(client, names))
    absent = {n for n, e in outcomes.items() if e is not None and e.code is ErrorCode.unknown_topic_or_partition}
    if if_exists:
        outcomes = {name: None if name in absent else error for name, error in outcomes.items()}
    for name, error in outcomes.items():
        if error is None:
            print(f"topic {name} {'does not exist' if name in absent else 'deleted'}")
    exit_for(outcomes)


def _assignment(text: str | None) -> list[list[int]]:
    """Brokers by partition from "1:2,2:3"."""
    if text is None:
        return []
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            f"expected broker ids such as 1:2,2:3, got '{text}'", param_hint="'--replica-assignment'"
        ) from error


def _id(topic: Topic) -> str | None:
    from isthmus_model.uuid_text import uuid_text

    return None if topic.topic_id is None else uuid_text(topic.topic_id)
