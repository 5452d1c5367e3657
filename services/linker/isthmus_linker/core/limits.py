"""Every bound of a worker, and what happens there."""

from typing import Final

IN_FLIGHT_BYTES_MAX: Final = 96 * 1024 * 1024
"""Bytes that were fetched and are not appended yet, of all links together. Fetches get equal parts of half of it: the other half is for
what was fetched before and is being appended. A fetch whose last answers are still held waits."""
FETCH_BYTES_MAX: Final = 24 * 1024 * 1024
"""One answer of a source broker, unless the link says otherwise (`replica.fetch.response.max.bytes`)."""
FETCH_BYTES_LEAST: Final = 1024 * 1024
"""With so many source brokers that the parts would be smaller than this, memory grows by twice this for each."""
PARTITION_BYTES: Final = 2 * 1024 * 1024
"""What one partition may have in an answer, unless the link says otherwise (`replica.fetch.max.bytes`)."""
CHUNKS_MAX: Final = 2
"""Answers that one partition holds: one is being appended while the next is fetched. A partition with so many is not fetched."""
APPEND_BYTES_MAX: Final = 32 * 1024 * 1024
"""Records in one append to one broker of the destination; what is beyond it goes with the next."""
APPENDS_MAX: Final = 4
"""Appends under way to one broker of the destination, each for other partitions. They are answered in their order."""
APPEND_TIMEOUT_MS: Final = 1_000
"""How long the destination may wait for its in-sync replicas before it answers. So long a partition whose replicas are stuck holds up the
others of its leader, once: then it is asked about until they have what was appended, and nothing more is sent before."""
APPEND_OVERDUE_MS: Final = 3_000
"""An append that takes longer is a reason to ask who leads: the broker that was sent it may hang."""
COMMIT_LOOK_MS: Final = 100
"""How often such a partition is asked about."""

BACKOFF_FIRST_MS: Final = 50
"""A partition that fails pauses twice as long each time, up to what its link says (`replica.fetch.backoff.ms`)."""
SHORT_WAIT_MS: Final = 20
"""How long a fetch waits when a partition is left out of it that may have room again at any moment."""

EPOCH_MARGIN: Final = 10
"""A partition's leader epoch is raised to this much above its source's,"""
EPOCH_MARGIN_LEAST: Final = 3
"""as soon as it is less than this above it."""

ANSWER_SECONDS: Final = 5.0
"""How long one broker of either cluster may take for a question, before another is asked or the question is asked anew."""
GROUPS_AT_ONCE: Final = 16
"""Groups whose offsets are asked for at the same time."""

assert APPEND_TIMEOUT_MS < APPEND_OVERDUE_MS
assert 2 * FETCH_BYTES_MAX <= IN_FLIGHT_BYTES_MAX
assert PARTITION_BYTES <= FETCH_BYTES_MAX <= APPEND_BYTES_MAX
assert EPOCH_MARGIN_LEAST < EPOCH_MARGIN
