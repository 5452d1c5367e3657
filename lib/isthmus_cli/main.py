"""The `isthmus` command. Each group of commands is a module; what a command needs to run is imported when it runs."""

import sys

import typer

from isthmus_cli.api import api
from isthmus_cli.balance import balance_app
from isthmus_cli.balancer import balancer
from isthmus_cli.cluster import cluster_app
from isthmus_cli.config import config_app
from isthmus_cli.consume import consume
from isthmus_cli.demo import demo
from isthmus_cli.group import group_app
from isthmus_cli.lag import lag_app
from isthmus_cli.link import link_app
from isthmus_cli.linker import linker
from isthmus_cli.load import load
from isthmus_cli.mirror import mirror
from isthmus_cli.node import node
from isthmus_cli.partition import partition_app
from isthmus_cli.produce import produce
from isthmus_cli.status import status
from isthmus_cli.storage import storage_app
from isthmus_cli.tier import tier_app
from isthmus_cli.topic import topic_app
from isthmus_cli.topology import down, kill, pause, resume, up
from isthmus_cli.transaction import transaction_app
from isthmus_cli.wan import wan_app

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Kafka-compatible brokers, links, mirrors and lag analytics across regions.",
)
app.command()(node)
app.command()(api)
app.command()(linker)
app.command()(mirror)
app.command()(balancer)
app.add_typer(storage_app, name="storage")
app.add_typer(tier_app, name="tier")
app.add_typer(cluster_app, name="cluster")
app.add_typer(topic_app, name="topic")
app.add_typer(partition_app, name="partition")
app.add_typer(config_app, name="config")
app.add_typer(group_app, name="group")
app.add_typer(transaction_app, name="transaction")
app.add_typer(link_app, name="link")
app.add_typer(lag_app, name="lag")
app.command()(produce)
app.command()(consume)
app.command()(load)
for command in (up, demo, status, kill, pause, resume, down):
    app.command()(command)
app.add_typer(balance_app, name="balance")
app.add_typer(wan_app, name="wan")


def main() -> None:
    """The console script. Assertions protect data, so python -O is refused."""
    if not __debug__:
        sys.exit("isthmus: do not run with python -O: it removes the checks that protect your data")
    app()
