"""The settings of a link that a worker follows, from what the destination tells. The destination has checked them when they were set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus_linker.core.filters import Filters
from isthmus_linker.core.limits import FETCH_BYTES_MAX, PARTITION_BYTES

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_TRUE: Final = "true"
_FETCH_BYTES: Final = "replica.fetch.response.max.bytes"
_PARTITION_BYTES: Final = "replica.fetch.max.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """In force; names and defaults are Confluent's."""

    bootstrap: str
    paused: bool
    prefix: str
    start: str
    """`earliest`, `latest`, or a time in ISO 8601."""
    retry_timeout_ms: int
    availability_check_ms: int
    availability_failures: int
    sync_offsets: bool
    sync_offsets_ms: int
    groups: Filters
    prefix_groups: bool
    sync_configs_ms: int
    configs: tuple[str, ...]
    create_mirrors: bool
    create_topics: Filters
    fetch_bytes: int
    partition_bytes: int
    fetch_wait_ms: int
    fetch_min_bytes: int
    backoff_max_ms: int
    """The longest pause of a partition that fails."""

    @classmethod
    def of(cls, told: Mapping[str, str], changed: frozenset[str]) -> "LinkSettings":
        """From every setting's value, and the names of those that somebody has set. Raises KeyError or ValueError for a broken answer."""
        return cls(
            bootstrap=told["bootstrap.servers"],
            paused=told["cluster.link.paused"] == _TRUE,
            prefix=told["cluster.link.prefix"],
            start=told["mirror.start.offset.spec"],
            retry_timeout_ms=int(told["cluster.link.retry.timeout.ms"]),
            availability_check_ms=int(told["availability.check.ms"]),
            availability_failures=int(told["availability.check.consecutive.failure.threshold"]),
            sync_offsets=told["consumer.offset.sync.enable"] == _TRUE,
            sync_offsets_ms=int(told["consumer.offset.sync.ms"]),
            groups=Filters.parse(told["consumer.offset.group.filters"], "groupFilters"),
            prefix_groups=told["consumer.group.prefix.enable"] == _TRUE,
            sync_configs_ms=int(told["topic.config.sync.ms"]),
            configs=tuple(filter(None, map(str.strip, told["topic.config.sync.include"].split(",")))),
            create_mirrors=told["auto.create.mirror.topics.enable"] == _TRUE,
            create_topics=Filters.parse(told["auto.create.mirror.topics.filters"], "topicFilters"),
            # Defaults of these two are a replica fetcher's, and small: a worker has larger ones of its own.
            fetch_bytes=int(told[_FETCH_BYTES]) if _FETCH_BYTES in changed else FETCH_BYTES_MAX,
            partition_bytes=int(told[_PARTITION_BYTES]) if _PARTITION_BYTES in changed else PARTITION_BYTES,
            fetch_wait_ms=int(told["replica.fetch.wait.max.ms"]),
            fetch_min_bytes=int(told["replica.fetch.min.bytes"]),
            backoff_max_ms=int(told["replica.fetch.backoff.ms"]),
        )
