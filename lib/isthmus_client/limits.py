"""Every bound of the client, and what happens when it is reached.

- `IN_FLIGHT_MAX` requests without a response on one connection: the next request waits.
- `FRAME_MAX`: a longer frame closes the connection as malformed.
- `REQUEST_SECONDS` without a response: the connection is closed, since responses come in order and this one blocks the rest; every request
  on it fails. A client may set a shorter timeout (`response_seconds`).
- `METADATA_SECONDS` without a response to a Metadata request: likewise.
- `CONNECT_STAGGER_SECONDS` without a connection, or `METADATA_STAGGER_SECONDS` without metadata: the next broker is tried as well.
- `OPERATION_SECONDS` of attempts: the operation fails with the last attempt's error.
- `IN_FLIGHT_BYTES_MAX` of records that a producer has accepted and no broker has acknowledged: `send` waits.
"""

from typing import Final

CONNECT_SECONDS: Final = 10.0
CONNECT_STAGGER_SECONDS: Final = 0.25
REQUEST_SECONDS: Final = 30.0
METADATA_SECONDS: Final = 5.0
METADATA_STAGGER_SECONDS: Final = 0.5
TIMED_OUT_SECONDS: Final = 10.0
"""For this long, a broker that did not respond in time is the last choice for requests that any broker can serve."""
OPERATION_SECONDS: Final = 60.0
IN_FLIGHT_MAX: Final = 64
FRAME_MAX: Final = 256 * 1024 * 1024
RECEIVE_BUFFER: Final = 64 * 1024
"""Size of a connection's reused buffer; a longer frame gets a buffer of its own."""
WRITE_HIGH_WATER: Final = 4 * 1024 * 1024
"""Unsent bytes of one connection at which further requests wait."""

BACKOFF_FIRST_SECONDS: Final = 0.05
BACKOFF_MAX_SECONDS: Final = 2.0
BACKOFF_JITTER: Final = 0.2

METADATA_AGE_SECONDS: Final = 300.0
"""Metadata older than this is refreshed before its next use."""
UNKNOWN_TOPIC_SECONDS: Final = 1.0
"""Retry an unknown topic for this long: a new topic takes a moment to reach every broker."""

FETCH_MAX_BYTES: Final = 50 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024
FETCH_WAIT_MS: Final = 500
FETCH_SILENCE_SECONDS: Final = 5.0
"""A broker that sends nothing for this long beyond a fetch's maximum wait is considered unreachable; its connection is closed."""
PRODUCE_TIMEOUT_MS: Final = 30_000

BATCH_BYTES: Final = 512 * 1024
"""A producer closes a batch when the next record would make it longer; a longer record is a batch of its own."""
BATCH_RECORDS_MAX: Final = 100_000
IN_FLIGHT_BYTES_MAX: Final = 32 * 1024 * 1024
POLL_RECORDS_MAX: Final = 10_000
"""Maximum records per poll of a consumer."""

DESCRIBED_PARTITIONS_MAX: Final = 500
"""Partitions whose producers are described by one request; more take several."""

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""The transaction coordinator aborts a transaction that is open for longer, unless the producer sets another timeout."""

SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 60_000
HEARTBEAT_SECONDS: Final = 3.0

assert BACKOFF_FIRST_SECONDS <= BACKOFF_MAX_SECONDS < OPERATION_SECONDS
assert FETCH_MAX_BYTES < FRAME_MAX
assert BATCH_BYTES <= IN_FLIGHT_BYTES_MAX
assert HEARTBEAT_SECONDS * 3000 <= SESSION_TIMEOUT_MS
