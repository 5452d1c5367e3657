"""DescribeTransactions and ListTransactions, for the transactional ids of one shard."""

from collections.abc import Mapping
from typing import Final

from isthmus_model.clocks import WallMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.coordinator.regex import InvalidRegex, NamePattern, TooMuchWork
from isthmus_broker.core.transaction.records import NO_TIMESTAMP, TopicPartition, Transaction
from isthmus_broker.core.transaction.requests import Description, Listing, ListTransactions

ANY_DURATION: Final = 0
"""Lower durations pass all."""


def describe(
    transactional_id: str, transaction: Transaction, outstanding: frozenset[TopicPartition] | None
) -> Description:
    """Describe a transactional id."""
    partitions = transaction.partitions if outstanding is None else outstanding
    return Description(
        transactional_id=transactional_id,
        state=transaction.state.kafka_name,
        timeout_ms=transaction.timeout_ms,
        start_ms=transaction.start_ms,
        producer=transaction.producer,
        partitions=tuple(sorted(partitions)),
    )


def list_transactions(transactions: Mapping[str, Transaction], request: ListTransactions, now_ms: WallMs) -> Listing:
    """The ids that pass all filters, in order."""
    try:
        pattern = NamePattern(request.pattern) if request.pattern else None
        passing = [
            describe(name, transactions[name], None)
            for name in sorted(transactions)
            if _passes(transactions[name], request, now_ms) and (pattern is None or pattern.matches(name))
        ]
    except (InvalidRegex, TooMuchWork):
        return Listing(ErrorCode.invalid_regular_expression)
    return Listing(transactions=tuple(passing))


def _passes(transaction: Transaction, request: ListTransactions, now_ms: WallMs) -> bool:
    if request.only_unknown_states or (request.states and transaction.state not in request.states):
        return False
    if request.producer_ids and transaction.producer_id not in request.producer_ids:
        return False
    if request.duration_ms < ANY_DURATION or transaction.start_ms == NO_TIMESTAMP:
        return True
    return now_ms - transaction.start_ms > request.duration_ms
