"""Every bound of a mirror, and what happens when it is reached."""

from typing import Final

IN_FLIGHT_BYTES_MAX: Final = 48 * 1024 * 1024
"""Bytes fetched and not yet appended, of one flow. Fetches share half of it equally; the other half is for earlier responses. A fetch waits
while its last responses are in memory."""
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""One fetch response."""
FETCH_BYTES_LEAST: Final = 1024 * 1024
"""The least share of a fetch: with very many source brokers, memory grows by twice this for each."""
PARTITION_BYTES: Final = 1024 * 1024
"""One partition's part of a response."""
BUFFERED_BYTES_MAX: Final = 1024 * 1024
"""A partition with this many fetched bytes in memory is not fetched."""
FETCH_WAIT_MS: Final = 500
SHORT_WAIT_MS: Final = 20
"""Maximum wait of a fetch that omits a full partition, which may have room again at any moment."""
APPEND_BYTES_MAX: Final = 8 * 1024 * 1024
"""Batches in one request to one broker of the target; the rest goes with the next."""
APPENDS_MAX: Final = 2
"""Requests in flight to one broker of the target, so that a slow one does not delay the rest."""
APPEND_OVERDUE_MS: Final = 3_000
"""An append that takes longer triggers a metadata refresh: the leader may hang, and another may have taken over."""
RESPONSE_SECONDS: Final = 5.0
"""Timeout of a request to one broker of either cluster, before a retry or another broker."""
STRETCH_BYTES_MAX: Final = 256 * 1024
"""One partition's part of a request, to brokers that accept several batches."""
STRETCHES_MAX: Final = 2
"""Requests in flight with batches of one partition, to such brokers."""
APPEND_TIMEOUT_MS: Final = 15_000
"""Timeout of the target's wait for its in-sync replicas."""

JOIN_LEAST: Final = 4
"""The least number of waiting batches that are merged, for brokers that accept one batch at a time."""
JOIN_BELOW_BYTES: Final = 64 * 1024
"""Larger batches are not merged."""
JOINED_BYTES_MAX: Final = 512 * 1024
JOINED_RECORDS_MAX: Final = 4096
"""Bounds of a merged batch: some 20 ms of work."""
END_CHECK_SECONDS: Final = 5.0
"""The interval of log end checks of idle copies."""
BACKOFF_FIRST_MS: Final = 50
BACKOFF_MAX_MS: Final = 2_000
"""The backoff of a failed partition doubles up to this."""
SEGMENTS_MAX: Final = 1_000
"""Contiguous runs in one progress record; a batch with more gaps is split."""
GROUPS_AT_ONCE: Final = 16
"""Groups whose offsets are fetched concurrently."""

TRANSACTION_MS: Final = 100
"""The duration of a transaction of the target, unless the file sets another."""
TRANSACTION_BYTES_MAX: Final = 64 * 1024 * 1024
"""A longer transaction ends earlier."""
SPLIT_AFTER_MS: Final = 5_000
"""A transaction of the source that is not complete after this time is split, so that it does not hold back everything else."""
TRANSACTION_TIMEOUT_MS: Final = 30_000
"""The target aborts the transaction of a mirror that has died after this time, if no other mirror has done it before."""

assert SPLIT_AFTER_MS < TRANSACTION_TIMEOUT_MS
assert 2 * FETCH_BYTES_MAX <= IN_FLIGHT_BYTES_MAX
assert BUFFERED_BYTES_MAX >= PARTITION_BYTES
