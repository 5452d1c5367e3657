"""Kafka's settings for the fetches of replicas, typed."""

from typing import NamedTuple

from isthmus_broker.core.config.node_config import NodeConfig


class FetchSettings(NamedTuple):
    """The settings for replica fetches."""

    fetchers: int
    wait_ms: int
    min_bytes: int
    response_max: int
    partition_max: int
    backoff_ms: int
    timeout_seconds: float


def fetch_settings(config: NodeConfig) -> FetchSettings:
    """The current settings."""

    def number(name: str) -> int:
        value = config.values[name]
        assert isinstance(value, int)
        return value

    return FetchSettings(
        number("num.replica.fetchers"),
        number("replica.fetch.wait.max.ms"),
        number("replica.fetch.min.bytes"),
        number("replica.fetch.response.max.bytes"),
        number("replica.fetch.max.bytes"),
        number("replica.fetch.backoff.ms"),
        number("replica.socket.timeout.ms") / 1000,
    )
