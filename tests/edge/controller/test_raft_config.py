"""The quorum's settings: every combination that Kafka accepts makes a valid configuration."""

from itertools import product
from uuid import UUID

import pytest
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.edge.controller.metadata_quorum import raft_config

NAMES = ("election.timeout", "fetch.timeout", "request.timeout", "election.backoff.max", "retry.backoff")


@pytest.mark.parametrize("values", list(product(("0", "400", "5000"), repeat=len(NAMES))))
def test_short_timeouts_are_accepted(values: tuple[str, ...]) -> None:
    given = {f"controller.quorum.{name}.ms": value for name, value in zip(NAMES, values, strict=True)}
    config = raft_config(resolve_node(BrokerLayers(with_embedded_defaults(given, "unused"))), UUID(int=1))
    assert config.fetch_wait_max_ms < min(config.fetch_timeout_ms, config.request_timeout_ms)


def test_the_defaults_are_kafkas() -> None:
    config = raft_config(resolve_node(BrokerLayers(with_embedded_defaults({}, "unused"))), UUID(int=1))
    assert (config.election_timeout_ms, config.fetch_timeout_ms, config.request_timeout_ms) == (1000, 2000, 2000)
    assert (config.election_backoff_max_ms, config.retry_backoff_ms, config.fetch_wait_max_ms) == (1000, 20, 500)
