"""`isthmus cluster`: brokers, features, log directories, producers."""

from __future__ import annotations

from typing import Annotated

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, complete_topics

cluster_app = typer.Typer(help="The cluster: brokers, features, log directories.", no_args_is_help=True)


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
    """Show the features, their levels, and what the broker that answers could do."""
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
    """Show the log directories, and the size of replicas in them."""
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
