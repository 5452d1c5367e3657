"""Every bound of a mirror, and what happens there."""

from typing import Final

IN_FLIGHT_BYTES_MAX: Final = 48 * 1024 * 1024
"""Bytes that were fetched and are not appended yet, of one flow. Fetches get equal parts of half of it: the other half is for what was
fetched before. A fetch whose last answers are still held waits."""
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""One answer of a source broker."""
FETCH_BYTES_LEAST: Final = 1024 * 1024
"""With so many source brokers that the parts would be smaller than this, memory grows by twice this for each."""
PARTITION_BYTES: Final = 1024 * 1024
"""What one partition may have in an answer."""
HELD_BYTES_MAX: Final = 1024 * 1024
"""A partition that holds so much is not fetched."""
FETCH_WAIT_MS: Final = 500
SHORT_WAIT_MS: Final = 20
"""How long a fetch waits when a partition is left out of it that may have room again at any moment."""
APPEND_BYTES_MAX: Final = 8 * 1024 * 1024
"""Batches in one request to one broker of the target; what is beyond it goes with the next."""
APPENDS_MAX: Final = 2
"""Requests under way to one broker of the target, so that a slow one does not hold up the rest."""
APPEND_OVERDUE_MS: Final = 3_000
"""An append that takes longer is a reason to ask who leads: the broker that was sent it may hang."""
RESPONSE_SECONDS: Final = 5.0
"""How long one broker of either cluster may take for a question, before another is asked or the question is asked anew."""
STRETCH_BYTES_MAX: Final = 256 * 1024
"""What one partition may have in a request, where brokers take more than a batch."""
STRETCHES_MAX: Final = 2
"""Requests under way with batches of one partition, to such brokers."""
APPEND_TIMEOUT_MS: Final = 15_000
"""How long the target may wait for its in-sync replicas."""

JOIN_LEAST: Final = 4
"""So many batches of a partition have to wait before they are joined to one, where brokers take one at a time."""
JOIN_BELOW_BYTES: Final = 64 * 1024
"""Larger ones are sent as they are."""
JOINED_BYTES_MAX: Final = 512 * 1024
JOINED_RECORDS_MAX: Final = 4096
"""What is joined to one batch at most: some 20 ms of work."""
LOOK_SECONDS: Final = 5.0
"""How often the ends of copies are looked at to which there is nothing to append."""
BACKOFF_FIRST_MS: Final = 50
BACKOFF_MAX_MS: Final = 2_000
"""A partition that fails pauses twice as long each time, up to this."""
SEGMENTS_MAX: Final = 1_000
"""Contiguous runs that one record of progress may tell; a batch with more gaps is written in parts."""
GROUPS_AT_ONCE: Final = 16
"""Groups whose offsets are asked for at the same time."""

assert 2 * FETCH_BYTES_MAX <= IN_FLIGHT_BYTES_MAX
assert HELD_BYTES_MAX >= PARTITION_BYTES
