"""Transactions that are still open, as partition leaders and transaction coordinators report them."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from isthmus_client.admin.cluster import producers
from isthmus_client.errors import Refused
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results

from tests.conformance.clients.kafka_python import KafkaAdminClient, KafkaError
from tests.histories import Partition, StillOpen
from tests.system.ledger import WAIT_SECONDS
from tests.system.quorums import query

_PAUSE_SECONDS: Final = 0.2
_ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def await_none_open(bootstrap: str, partitions: Sequence[Partition]) -> list[StillOpen]:
    """What is still open after the time in which the coordinator must have ended every transaction; usually nothing, and soon."""
    return await_open(bootstrap, partitions, lambda found: not found)


def await_open(
    bootstrap: str, partitions: Sequence[Partition], done: Callable[[list[StillOpen]], bool]
) -> list[StillOpen]:
    """Wait until `done` with what is open, or for a generous time; returns what is open then."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            found = open_transactions(bootstrap, partitions)
        except (KafkaError, Refused) as refused:  # a coordinator or a leader has just moved
            found = [StillOpen(f"unknown: {refused}")]
        if done(found) or time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE_SECONDS)


def open_transactions(bootstrap: str, partitions: Sequence[Partition]) -> list[StillOpen]:
    """Of these partitions, by DescribeProducers; and of all transactional ids, by ListTransactions."""
    places = [TopicPartition(*partition) for partition in partitions]
    states = results(query(bootstrap, lambda client: producers(client, places)))
    hanging = [
        StillOpen(f"{place}: producer {state.producer_id} since offset {state.transaction_start}")
        for place, found in states.items()
        for state in found
        if state.transaction_start >= 0
    ]
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap.split(","))) as admin:
        listings = admin.list_transactions()
    return hanging + [
        StillOpen(f"transactional id {listing.transactional_id} is {listing.state.value}")
        for listed in listings.values()
        for listing in listed
        if listing.state.value not in _ENDED
    ]
