"""`isthmus cluster`: brokers, features, log directories, and the quorum of controllers."""

from __future__ import annotations

from typing import Annotated

import typer

from isthmus_cli.node import ConfigOption, SettingsOption
from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, complete_topics

cluster_app = typer.Typer(help="The cluster: brokers, features, log directories, the quorum.", no_args_is_help=True)


@cluster_app.command("describe")
def describe_command(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE) -> None:
    """Show the brokers."""
    from isthmus_client.admin.cluster import describe

    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import run

    cluster = run(bootstrap, describe)
    rows = [
        {
            "broker": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "state": "fenced" if broker.fenced else "active",
        }
        for broker in cluster.brokers
    ]
    if output is Output.JSON:
        show_json({"cluster": cluster.cluster_id, "controller": cluster.controller_id, "brokers": rows})
        return
    print(f"cluster {cluster.cluster_id}  controller {cluster.controller_id}")
    show_table(("broker", "host", "port", "rack", "state"), rows)


@cluster_app.command("features")
def features_command(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE) -> None:
    """Show the features, their finalized levels, and the levels that the broker supports."""
    from isthmus_client.admin.cluster import features

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    rows = [
        {"feature": f.name, "level": f.level, "lowest": f.lowest, "highest": f.highest}
        for f in run(bootstrap, features)
    ]
    show_rows(output, ("feature", "level", "lowest", "highest"), rows)


@cluster_app.command("log-dirs")
def log_dirs_command(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    broker: Annotated[list[int] | None, typer.Option("--broker", help="Only this one; may be repeated.")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", help="Show the replicas of this topic; may be repeated.", autocompletion=complete_topics
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the log directories and the sizes of their replicas."""
    from isthmus_client.admin.cluster import log_dirs

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    directories = run(bootstrap, lambda client: log_dirs(client, broker or ()))
    if topic:
        replicas = [
            {
                "broker": directory.broker,
                "directory": directory.path,
                "topic": replica.partition.topic,
                "partition": replica.partition.partition,
                "bytes": replica.size,
                "lag": replica.lag,
                "moving_in": replica.future,
            }
            for directory in directories
            for replica in directory.replicas
            if replica.partition.topic in topic
        ]
        show_rows(output, ("broker", "directory", "topic", "partition", "bytes", "lag", "moving_in"), replicas)
        return
    rows = [
        {
            "broker": directory.broker,
            "directory": directory.path,
            "state": "ok" if directory.error_code.value == 0 else directory.error_code.name,
            "replicas": len(directory.replicas),
            "bytes": sum(replica.size for replica in directory.replicas),
            "volume_bytes": directory.total_bytes if directory.total_bytes >= 0 else None,
            "free_bytes": directory.usable_bytes if directory.usable_bytes >= 0 else None,
            "cordoned": directory.cordoned,
        }
        for directory in directories
    ]
    show_rows(output, ("broker", "directory", "state", "replicas", "bytes", "volume_bytes", "free_bytes"), rows)


@cluster_app.command("quorum")
def quorum_command(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE) -> None:
    """Show the voters and observers of the metadata log with their log end offsets."""
    from isthmus_client.admin.quorum import describe_quorum
    from isthmus_model.uuid_text import uuid_text

    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import run

    quorum = run(bootstrap, describe_quorum)
    rows = [
        {
            "node": replica.node_id,
            "role": "leader" if replica.node_id == quorum.leader_id else role,
            "directory": None if replica.directory_id is None else uuid_text(replica.directory_id),
            "log_end": replica.log_end_offset,
            "lag": max(quorum_end - replica.log_end_offset, 0),
            "last_fetch_ms": replica.last_fetch_ms if replica.last_fetch_ms >= 0 else None,
            "last_caught_up_ms": replica.last_caught_up_ms if replica.last_caught_up_ms >= 0 else None,
            "endpoints": ",".join(f"{e.listener}://{e.host}:{e.port}" for e in replica.endpoints),
        }
        for quorum_end in [max(replica.log_end_offset for replica in quorum.voters)]
        for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for replica in replicas
    ]
    if output is Output.JSON:
        facts = {"leader": quorum.leader_id, "epoch": quorum.epoch, "high_watermark": quorum.high_watermark}
        show_json({**facts, "replicas": rows})
        return
    print(f"leader {quorum.leader_id}  epoch {quorum.epoch}  high watermark {quorum.high_watermark}")
    show_table(("node", "role", "directory", "log_end", "lag", "endpoints"), rows)


@cluster_app.command("add-voter")
def add_voter_command(
    config: ConfigOption = None,
    settings: SettingsOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Make the controller of these settings a voter; run it on that controller's host."""
    from isthmus_broker.core.config.node_config import resolve_node
    from isthmus_broker.core.config.values import ConfigRefused
    from isthmus_broker.edge.assembly.format import metadata_directory
    from isthmus_broker.edge.storage.filesystem import SYSTEM
    from isthmus_broker.edge.storage.log_dir import Inconsistent, NotFormatted, read_meta
    from isthmus_client.admin.quorum import Endpoint, add_voter

    from isthmus_cli.session import fail, run
    from isthmus_cli.settings import node_layers

    try:
        resolved = resolve_node(node_layers(config, settings or []))
        meta = read_meta(SYSTEM, metadata_directory(resolved))
    except (ConfigRefused, Inconsistent, NotFormatted) as problem:
        fail(str(problem))
    endpoints = tuple(Endpoint(e.name, e.host, e.port) for e in resolved.listeners.advertised_to_controllers)
    run(bootstrap, lambda client: add_voter(client, resolved.node_id, meta.directory_id, endpoints))
    print(f"node {resolved.node_id} is now a voter")


@cluster_app.command("remove-voter")
def remove_voter_command(
    node_id: Annotated[int, typer.Argument(help="The voter to remove.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove a voter from the quorum, even if it is offline."""
    from isthmus_client.admin.quorum import describe_quorum, remove_voter

    from isthmus_cli.session import fail, run

    voter = next((each for each in run(bootstrap, describe_quorum).voters if each.node_id == node_id), None)
    directory = None if voter is None else voter.directory_id
    if directory is None:
        fail(f"node {node_id} is not a voter that can be removed; see `isthmus cluster quorum`")
    run(bootstrap, lambda client: remove_voter(client, node_id, directory))
    print(f"node {node_id} is no longer a voter")


@cluster_app.command("unregister")
def unregister_command(
    broker: Annotated[int, typer.Argument(help="The broker to unregister.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Unregister a broker that will not return."""
    from isthmus_client.admin.quorum import unregister_broker

    from isthmus_cli.session import run

    run(bootstrap, lambda client: unregister_broker(client, broker))
    print(f"broker {broker} is unregistered")
