"""The settings of a link that a worker applies. The destination cluster stores them, and validated them when they were set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus_model.filters import GROUP_FILTERS, TOPIC_FILTERS, Filters, parse_filters

from isthmus_linker.core.limits import FETCH_BYTES_MAX, PARTITION_BYTES

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_TRUE: Final = "true"
_FETCH_BYTES: Final = "replica.fetch.response.max.bytes"
_PARTITION_BYTES: Final = "replica.fetch.max.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """The effective values; names and defaults are Confluent's."""

    bootstrap: str
    paused: bool
    prefix: str
    start: str
    """`earliest`, `latest`, or an ISO 8601 timestamp."""
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
    """The longest backoff of a failed partition."""

    @classmethod
    def of(cls, values: Mapping[str, str], changed: frozenset[str]) -> "LinkSettings":
        """From all values, and the names of those set explicitly. Raises KeyError or ValueError for a malformed response."""
        return cls(
            bootstrap=values["bootstrap.servers"],
            paused=values["cluster.link.paused"] == _TRUE,
            prefix=values["cluster.link.prefix"],
            start=values["mirror.start.offset.spec"],
            retry_timeout_ms=int(values["cluster.link.retry.timeout.ms"]),
            availability_check_ms=int(values["availability.check.ms"]),
            availability_failures=int(values["availability.check.consecutive.failure.threshold"]),
            sync_offsets=values["consumer.offset.sync.enable"] == _TRUE,
            sync_offsets_ms=int(values["consumer.offset.sync.ms"]),
            groups=parse_filters(values["consumer.offset.group.filters"], GROUP_FILTERS),
            prefix_groups=values["consumer.group.prefix.enable"] == _TRUE,
            sync_configs_ms=int(values["topic.config.sync.ms"]),
            configs=tuple(filter(None, map(str.strip, values["topic.config.sync.include"].split(",")))),
            create_mirrors=values["auto.create.mirror.topics.enable"] == _TRUE,
            create_topics=parse_filters(values["auto.create.mirror.topics.filters"], TOPIC_FILTERS),
            # The defaults of these two are small, as for replica fetchers; workers use larger ones.
            fetch_bytes=int(values[_FETCH_BYTES]) if _FETCH_BYTES in changed else FETCH_BYTES_MAX,
            partition_bytes=int(values[_PARTITION_BYTES]) if _PARTITION_BYTES in changed else PARTITION_BYTES,
            fetch_wait_ms=int(values["replica.fetch.wait.max.ms"]),
            fetch_min_bytes=int(values["replica.fetch.min.bytes"]),
            backoff_max_ms=int(values["replica.fetch.backoff.ms"]),
        )
