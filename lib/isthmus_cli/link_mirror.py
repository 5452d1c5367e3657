"""`isthmus link mirror`: mirror topics, and their promotion and failover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, complete_topics

if TYPE_CHECKING:
    from isthmus_client.client import Client
    from isthmus_wire.extensions.mirrors import (
        AlteredMirror,
        DescribedMirror,
        MirrorAction,
        PartitionLag,
        PartitionProgress,
    )

mirror_app = typer.Typer(help="Mirror topics: create, describe, pause, promote, fail over.", no_args_is_help=True)

TopicsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC]...", autocompletion=complete_topics, help="Or --link for all topics of a link."),
]
LinkOption = Annotated[str | None, typer.Option("--link", metavar="LINK", help="All mirror topics of this link.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Validate only; change nothing.")]
_COLUMNS = ("topic", "link", "source_topic", "state", "error", "partitions", "since_ms")
_PARTITION_COLUMNS = ("partition", "lag", "log_end", "source_end", "source_age_ms", "caught_up_ms_ago", "leader_epoch")
_LAG_COLUMNS = ("topic", "partition", "lag", "log_end")


@mirror_app.command("create")
def create_command(
    link: Annotated[str, typer.Argument(metavar="LINK")],
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Topics of the source.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    replication_factor: Annotated[
        int, typer.Option("-r", "--replication-factor", help="By default the broker's default.")
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Configs that do not follow the source.")
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Create mirror topics of topics of the source, with the same number of partitions."""
    from isthmus_client.errors import Refused

    from isthmus_cli.session import exit_for, pairs, run

    configs = pairs(config, "--config")

    async def create(client: Client) -> dict[str, str | Exception]:
        from isthmus_client.admin.mirrors import create_mirror

        made: dict[str, str | Exception] = {}
        for topic in topics:
            try:
                made[topic], _ = await create_mirror(
                    client, link, topic, replication_factor=replication_factor, configs=configs, validate_only=dry_run
                )
            except Refused as refusal:
                made[topic] = refusal
        return made

    outcomes = run(bootstrap, create)
    for topic, made in outcomes.items():
        if isinstance(made, str):
            print(f"mirror topic {made} of {topic} {'can be created' if dry_run else 'created'}")
    exit_for({topic: made if isinstance(made, Exception) else None for topic, made in outcomes.items()})


@mirror_app.command("list")
def list_command(
    link: LinkOption = None, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE
) -> None:
    """List the mirror topics."""
    from isthmus_client.admin.mirrors import describe_mirrors

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    mirrors = run(bootstrap, lambda client: describe_mirrors(client, link=link))
    show_rows(output, _COLUMNS, [_facts(mirror) for mirror in mirrors])


@mirror_app.command("describe")
def describe_command(
    topics: TopicsArgument = None,
    link: LinkOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show mirror topics and the lag of each partition; source_age_ms is the age of the source position."""
    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import run

    described = run(bootstrap, lambda client: _described(client, topics or None, link))
    if output is Output.JSON:
        show_json(described)
        return
    for one in described:
        show_table(_COLUMNS, [one])
        show_table(_PARTITION_COLUMNS, _for_people(one["lags"]))


@mirror_app.command("pause")
def pause_command(
    topics: TopicsArgument = None,
    link: LinkOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Pause copying. The topics stay read-only."""
    _alter("pause", "paused", topics, link, bootstrap, output, dry_run=dry_run)


@mirror_app.command("resume")
def resume_command(
    topics: TopicsArgument = None,
    link: LinkOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Resume paused mirror topics, or retry failed ones."""
    _alter("resume", "resumed", topics, link, bootstrap, output, dry_run=dry_run)


@mirror_app.command("promote")
def promote_command(
    topics: TopicsArgument = None,
    link: LinkOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Promote caught-up mirror topics; they become writable once the last records of the source are copied."""
    _alter("promote", "is being promoted", topics, link, bootstrap, output, dry_run=dry_run)


@mirror_app.command("failover")
def failover_command(
    topics: TopicsArgument = None,
    link: LinkOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Fail over mirror topics: they become writable at once, as they are. Needs neither the source nor a linker; cannot be undone."""
    _alter("failover", "failed over", topics, link, bootstrap, output, dry_run=dry_run)


def _alter(
    action: str,
    done: str,
    topics: list[str] | None,
    link: str | None,
    bootstrap: str,
    output: Output,
    *,
    dry_run: bool,
) -> None:
    from isthmus_client.admin.mirrors import refusal
    from isthmus_wire.extensions.mirrors import MirrorAction

    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import exit_for, run

    if bool(topics) == (link is not None):
        raise typer.BadParameter("name either topics, or the link with --link")
    altered = run(bootstrap, lambda client: _ask(client, MirrorAction(action), topics, link, dry_run=dry_run))
    refusals: dict[str, Exception | None] = {topic: refusal(one) for topic, one in altered.items()}
    if output is Output.JSON:
        show_json([_outcome(one, refusals[topic]) for topic, one in altered.items()])
    else:
        for topic, refused in refusals.items():
            if refused is None:
                print(f"mirror topic {topic} {f'can {action}' if dry_run else done}")
        lags = [{"topic": topic, **_lag(lag)} for topic, one in altered.items() for lag in one.lags]
        if lags:
            show_table(_LAG_COLUMNS, _for_people(lags))
    exit_for(refusals)


async def _ask(
    client: Client, action: MirrorAction, topics: list[str] | None, link: str | None, *, dry_run: bool
) -> dict[str, AlteredMirror]:
    from isthmus_client.admin.links import describe_links
    from isthmus_client.admin.mirrors import alter_mirrors, describe_mirrors
    from isthmus_wire.extensions.mirrors import MirrorState

    if topics is None or link is not None:
        assert link is not None, "topics or a link are named"
        await describe_links(client, [link])  # a link that does not exist is an error
        mirrors = await describe_mirrors(client, link=link)
        topics = [mirror.topic for mirror in mirrors if mirror.state != MirrorState.STOPPED]
    return await alter_mirrors(client, action, topics, validate_only=dry_run)


async def _described(client: Client, topics: list[str] | None, link: str | None) -> list[dict[str, Any]]:
    from isthmus_client.admin.mirrors import describe_mirrors
    from isthmus_client.append_mirrored import progress
    from isthmus_client.errors import ClientError
    from isthmus_client.metadata import TopicPartition

    mirrors = await describe_mirrors(client, link=link, topics=topics)
    reports = await progress(client, [TopicPartition(m.topic, i) for m in mirrors for i in range(m.partitions)])
    return [
        {
            **_facts(mirror),
            "lags": [
                _progress(index, None if isinstance(known, ClientError) else known)
                for index in range(mirror.partitions)
                for known in (reports[TopicPartition(mirror.topic, index)],)
            ],
        }
        for mirror in mirrors
    ]


def _facts(mirror: DescribedMirror) -> dict[str, Any]:
    from isthmus_model.uuid_text import uuid_text

    return {
        "topic": mirror.topic,
        "link": mirror.link_name,
        "source_topic": mirror.source_topic,
        "state": mirror.state,
        "error": mirror.mirror_error,
        "error_message": mirror.mirror_error_message or None,
        "partitions": mirror.partitions,
        "since_ms": mirror.state_since_ms,
        "id": None if mirror.topic_id is None else uuid_text(mirror.topic_id),
    }


def _progress(index: int, progress: PartitionProgress | None) -> dict[str, Any]:
    """A row for each partition; null is unknown."""
    from isthmus_model.lag import mirror_lag, number_or_none

    if progress is None:
        return {"partition": index, **dict.fromkeys(_PARTITION_COLUMNS[1:])}
    return {
        "partition": index,
        "lag": mirror_lag(progress),
        "log_end": progress.log_end_offset,
        "source_end": number_or_none(progress.source_high_watermark),
        "source_age_ms": number_or_none(progress.last_heard_lag_ms),
        "caught_up_ms_ago": number_or_none(progress.caught_up_lag_ms),
        "leader_epoch": progress.leader_epoch,
    }


def _outcome(altered: AlteredMirror, refused: Exception | None) -> dict[str, Any]:
    return {
        "topic": altered.topic,
        "error": None if refused is None else altered.error_code.name,
        "error_message": altered.error_message,
        "lags": [_lag(lag) for lag in altered.lags],
    }


def _lag(lag: PartitionLag) -> dict[str, Any]:
    from isthmus_model.lag import number_or_none

    return {
        "partition": lag.index,
        "lag": number_or_none(lag.lag),
        "log_end": number_or_none(lag.last_source_fetch_offset),
    }


def _for_people(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, with "unknown" for an unknown lag."""
    return [{**row, "lag": "unknown" if row["lag"] is None else row["lag"]} for row in rows]
