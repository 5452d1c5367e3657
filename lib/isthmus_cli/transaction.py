"""`isthmus transaction`: list, describe, and end transactions; `abort` is in a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    YesOption,
    complete_topics,
    complete_transactions,
)
from isthmus_cli.transaction_abort import abort_command

if TYPE_CHECKING:
    from isthmus_client.admin.transactions import OpenTransaction, Transaction
    from isthmus_client.client import Client
    from isthmus_client.metadata import TopicPartition

transaction_app = typer.Typer(
    help="Transactions: list, describe, find those that hang, abort them.", no_args_is_help=True
)
transaction_app.command("abort")(abort_command)

IdsArgument = Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID...", autocompletion=complete_transactions)]
BrokerOption = Annotated[
    int | None, typer.Option("--broker-id", help="What this broker's replica has recorded, instead of the leader.")
]
_LIST_COLUMNS: Final = ("transactional_id", "coordinator", "producer_id", "state")
_DESCRIBE_COLUMNS: Final = (
    *("transactional_id", "coordinator", "producer_id", "epoch", "state"),
    *("timeout_ms", "start_ms", "duration_ms", "partitions"),
)
_PRODUCER_COLUMNS: Final = (
    *("producer_id", "epoch", "coordinator_epoch", "last_sequence", "last_timestamp", "start_offset"),
)
_HANGING_COLUMNS: Final = (
    *("topic", "partition", "producer_id", "epoch", "coordinator_epoch"),
    *("start_offset", "last_timestamp", "minutes"),
)
_ENDED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
_MINUTE_MS: Final = 60_000


@transaction_app.command("list")
def list_command(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only in this state, such as Ongoing; may be repeated.")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only of this producer; may be repeated.")
    ] = None,
    duration: Annotated[
        int | None, typer.Option("--duration-filter", metavar="MS", min=0, help="Only those open for longer.")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--transactional-id-pattern", metavar="REGEX", help="Only where this RE2 expression matches the whole id."
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the transactional ids, with the state of the last transaction of each."""
    from dataclasses import asdict

    from isthmus_client.admin.transactions import NO_DURATION, list_transactions

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    longer_than_ms = NO_DURATION if duration is None else duration
    listed = run(
        bootstrap,
        lambda client: list_transactions(
            client, state or (), producer_id or (), longer_than_ms=longer_than_ms, pattern=pattern
        ),
    )
    show_rows(output, _LIST_COLUMNS, [asdict(one) for one in listed])


@transaction_app.command("describe")
def describe_command(
    transactional_ids: IdsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE
) -> None:
    """Show the transaction of each transactional id: producer, state, age, and the partitions that have no marker yet."""
    from isthmus_client.admin.transactions import describe_transactions
    from isthmus_client.clock import wall_ms
    from isthmus_client.errors import ClientError

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import exit_for, run

    outcomes = run(bootstrap, lambda client: describe_transactions(client, transactional_ids))
    now_ms = wall_ms()
    rows = [_row(one, now_ms) for one in outcomes.values() if not isinstance(one, ClientError)]
    if rows or output is Output.JSON:
        show_rows(output, _DESCRIBE_COLUMNS, rows)
    exit_for({name: one if isinstance(one, ClientError) else None for name, one in outcomes.items()})


def _row(transaction: Transaction, now_ms: int) -> dict[str, Any]:
    is_open = transaction.state not in _ENDED and transaction.start_ms is not None
    return {
        "transactional_id": transaction.transactional_id,
        "coordinator": transaction.coordinator,
        "producer_id": transaction.producer.id,
        "epoch": transaction.producer.epoch,
        "state": transaction.state,
        "timeout_ms": transaction.timeout_ms,
        "start_ms": transaction.start_ms,
        "duration_ms": max(0, now_ms - (transaction.start_ms or 0)) if is_open else None,
        "partitions": [str(partition) for partition in transaction.partitions],
    }


@transaction_app.command("describe-producers")
def describe_producers_command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    partition: Annotated[int, typer.Option("-p", "--partition", min=0)],
    broker: BrokerOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the recent producers of a partition; one with a start offset has an open transaction."""
    from isthmus_client.admin.cluster import producers
    from isthmus_client.metadata import TopicPartition
    from isthmus_client.requests_by_broker import results

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    subject = TopicPartition(topic, partition)
    states = results(run(bootstrap, lambda client: producers(client, [subject], broker)))[subject]
    rows = [
        {
            "producer_id": one.producer_id,
            "epoch": one.epoch,
            "coordinator_epoch": one.coordinator_epoch,
            "last_sequence": one.last_sequence,
            "last_timestamp": one.last_timestamp,
            "start_offset": one.transaction_start if one.is_open else None,
        }
        for one in states
    ]
    show_rows(output, _PRODUCER_COLUMNS, rows)


@transaction_app.command("find-hanging")
def find_hanging_command(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    broker: Annotated[int | None, typer.Option("--broker-id", help="Only in partitions with a replica there.")] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only in this topic.", autocompletion=complete_topics)
    ] = None,
    partition: Annotated[int | None, typer.Option("-p", "--partition", min=0, help="Only this one of --topic.")] = None,
    minutes: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            min=0,
            help="Leave out transactions with a record newer than this; at least the brokers' transaction.max.timeout.ms.",
        ),
    ] = 15,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find transactions that hold back read_committed consumers, and that no coordinator will complete.

    End one with `isthmus transaction abort TOPIC -p PARTITION --start-offset START_OFFSET`.
    """
    from isthmus_client.clock import wall_ms

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    if topic is None and broker is None:
        raise typer.BadParameter("give --topic, --broker-id, or both")
    if partition is not None and topic is None:
        raise typer.BadParameter("it is a partition of --topic, which is missing", param_hint="'--partition'")

    async def work(client: Client) -> list[OpenTransaction]:
        from isthmus_client.admin.transactions import find_hanging

        partitions = await _searched(client, topic, partition, broker)
        return await find_hanging(client, partitions, minutes * _MINUTE_MS, wall_ms(), broker)

    now_ms = wall_ms()
    rows = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "producer_id": one.producer.producer_id,
            "epoch": one.producer.epoch,
            "coordinator_epoch": one.producer.coordinator_epoch,
            "start_offset": one.producer.transaction_start,
            "last_timestamp": one.producer.last_timestamp,
            "minutes": (now_ms - one.producer.last_timestamp) // _MINUTE_MS,
        }
        for one in run(bootstrap, work)
    ]
    show_rows(output, _HANGING_COLUMNS, rows)


async def _searched(
    client: Client, topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    from isthmus_client.admin.topics import describe, list_topics
    from isthmus_client.errors import ClientError
    from isthmus_client.metadata import TopicPartition

    topics = await list_topics(client) if topic is None else await describe(client, [topic])
    if topic is not None and partition is not None and partition not in topics[topic].partitions:
        raise ClientError(f"topic {topic} has no partition {partition}; it has {len(topics[topic].partitions)}")
    return [
        TopicPartition(name, index)
        for name, described in sorted(topics.items())
        for index, one in described.partitions.items()
        if partition in (None, index) and (broker is None or broker in one.replicas)
    ]


@transaction_app.command("force-terminate")
def force_terminate_command(
    transactional_ids: IdsArgument, yes: YesOption = False, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP
) -> None:
    """Abort the open transaction of each transactional id in all its partitions, and fence its producer."""
    from isthmus_client.admin.transactions import fence_producers
    from isthmus_client.errors import ClientError

    from isthmus_cli.session import confirm, exit_for, run

    names = ", ".join(transactional_ids)
    confirm(
        f"Producers with transactional id {names} are fenced: they fail and must be restarted. What their open transactions "
        "wrote is aborted: read_committed consumers never see it.",
        f"Force-terminate the transactions of {names}?",
        yes=yes,
    )
    outcomes = run(bootstrap, lambda client: fence_producers(client, transactional_ids))
    for name, outcome in outcomes.items():
        if not isinstance(outcome, ClientError):
            print(f"transactional id {name}: transaction aborted, producer {outcome.id} fenced")
    exit_for({name: one if isinstance(one, ClientError) else None for name, one in outcomes.items()})
