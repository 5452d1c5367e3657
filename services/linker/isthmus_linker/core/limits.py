"""Every bound of a worker, and what happens when it is reached."""

from typing import Final

IN_FLIGHT_BYTES_MAX: Final = 96 * 1024 * 1024
"""Bytes fetched and not yet appended, of all links together. Fetches share half of it equally; the other half is for responses that are
being appended. A fetch waits while its last responses are in memory."""
FETCH_BYTES_MAX: Final = 24 * 1024 * 1024
"""One fetch response, unless the link sets `replica.fetch.response.max.bytes`."""
FETCH_BYTES_LEAST: Final = 1024 * 1024
"""The least share of a fetch: with very many source brokers, memory grows by twice this for each."""
PARTITION_BYTES: Final = 2 * 1024 * 1024
"""One partition's part of a response, unless the link sets `replica.fetch.max.bytes`."""
CHUNKS_MAX: Final = 2
"""Responses in memory per partition: one is appended while the next is fetched. A partition with this many is not fetched."""
APPEND_BYTES_MAX: Final = 32 * 1024 * 1024
"""Records in one append to one broker of the destination; the rest goes with the next."""
APPENDS_MAX: Final = 4
"""Appends in flight to one broker of the destination, each for other partitions. Responses come in their order."""
APPEND_TIMEOUT_MS: Final = 1_000
"""Timeout of the destination's wait for its in-sync replicas. A partition whose replicas are stuck delays the others of its leader by
this much, once: then its progress is queried until the append is committed, and nothing more is sent before."""
APPEND_OVERDUE_MS: Final = 3_000
"""An append that takes longer triggers a metadata refresh: the leader may hang, and another may have taken over."""
COMMIT_CHECK_MS: Final = 100
"""The interval of these queries."""

BACKOFF_FIRST_MS: Final = 50
"""First backoff of a failed partition; it doubles up to the link's `replica.fetch.backoff.ms`."""
SHORT_WAIT_MS: Final = 20
"""Maximum wait of a fetch that omits a full partition, which may have room again at any moment."""

EPOCH_MARGIN: Final = 10
"""A partition's leader epoch is raised to this much above its source's,"""
EPOCH_MARGIN_LEAST: Final = 3
"""as soon as it is less than this above it."""

RESPONSE_SECONDS: Final = 5.0
"""Timeout of a request to one broker of either cluster, before a retry or another broker."""
GROUPS_AT_ONCE: Final = 16
"""Groups whose offsets are fetched concurrently."""

assert APPEND_TIMEOUT_MS < APPEND_OVERDUE_MS
assert 2 * FETCH_BYTES_MAX <= IN_FLIGHT_BYTES_MAX
assert PARTITION_BYTES <= FETCH_BYTES_MAX <= APPEND_BYTES_MAX
assert EPOCH_MARGIN_LEAST < EPOCH_MARGIN
