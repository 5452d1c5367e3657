"""`isthmus transaction abort`: end a transaction that hangs in one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, YesOption, complete_topics

if TYPE_CHECKING:
    from isthmus_client.client import Client
    from isthmus_client.metadata import TopicPartition
    from isthmus_wire.markers import ProducerId


class _Plan(NamedTuple):
    """What is to be aborted, and what the operator should know before."""

    producer: ProducerId
    coordinator_epoch: int
    effect: str


def abort_command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    partition: Annotated[int, typer.Option("-p", "--partition", min=0)],
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, help="The offset at which the transaction begins; see find-hanging."),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, help="Instead of --start-offset, for brokers before 3.0.")
    ] = None,
    producer_epoch: Annotated[int | None, typer.Option("--producer-epoch", min=0, help="With --producer-id.")] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option("--coordinator-epoch", min=0, help="With --producer-id.")
    ] = None,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort a transaction that hangs in one partition, so that read_committed consumers continue behind it.

    This writes a marker and changes nothing at the coordinator. A transaction that its coordinator still has is ended by force-terminate.
    """
    from isthmus_client.admin.transactions import abort_transaction
    from isthmus_client.metadata import TopicPartition
    from isthmus_wire.markers import ProducerId

    from isthmus_cli.session import confirm, run

    subject = TopicPartition(topic, partition)
    given = (producer_id, producer_epoch, coordinator_epoch)
    if start_offset is not None and given != (None, None, None):
        raise typer.BadParameter("give either --start-offset or the producer, not both", param_hint="'--start-offset'")
    if producer_id is not None and producer_epoch is not None and coordinator_epoch is not None:
        plan = _Plan(ProducerId(producer_id, producer_epoch), coordinator_epoch, "")
    elif start_offset is not None:
        plan = run(bootstrap, lambda client: _plan(client, subject, start_offset))
    else:
        raise typer.BadParameter("give --start-offset, or all of --producer-id, --producer-epoch, --coordinator-epoch")
    confirm(
        f"{plan.effect}What producer {plan.producer.id} (epoch {plan.producer.epoch}) wrote to {subject} in its open transaction is "
        "discarded: read_committed consumers never see it. This cannot be undone.",
        f"Abort the transaction in {subject}?",
        yes=yes,
    )
    run(bootstrap, lambda client: abort_transaction(client, subject, plan.producer, plan.coordinator_epoch))
    print(f"partition {subject}: transaction of producer {plan.producer.id} aborted")


async def _plan(client: Client, partition: TopicPartition, start_offset: int) -> _Plan:
    from isthmus_client.admin.transactions import open_transactions
    from isthmus_client.errors import ClientError
    from isthmus_wire.markers import ProducerId

    opened = [one.producer for one in await open_transactions(client, [partition])]
    producer = next((one for one in opened if one.transaction_start == start_offset), None)
    if producer is None:
        starts = ", ".join(str(one.transaction_start) for one in opened)
        others = f"open transactions begin at {starts}" if opened else "no transaction is open there"
        raise ClientError(f"no open transaction of partition {partition} begins at offset {start_offset}; {others}")
    return _Plan(
        ProducerId(producer.producer_id, max(producer.epoch, 0)),
        max(producer.coordinator_epoch, 0),
        await _effect(client, partition, producer.producer_id, start_offset),
    )


async def _effect(client: Client, partition: TopicPartition, producer_id: int, start_offset: int) -> str:
    """Where the transaction begins, and a warning if its coordinator still has it: then it does not hang."""
    from isthmus_client.admin.transactions import Transaction, describe_transactions, list_transactions

    listed = await list_transactions(client, producer_ids=[producer_id])
    described = await describe_transactions(client, [one.transactional_id for one in listed])
    current = [one for one in described.values() if isinstance(one, Transaction) and partition in one.partitions]
    warning = "".join(
        f"Warning: it does not hang. The coordinator of transactional id {one.transactional_id} still has it ({one.state}) and will end "
        f"it in {len(one.partitions)} partitions; `isthmus transaction force-terminate {one.transactional_id}` aborts it in all of them.\n"
        for one in current
    )
    return f"The transaction begins at offset {start_offset}.\n{warning}"
