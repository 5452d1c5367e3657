"""Every bound of the control plane, and what happens there.

- `BODY_MAX` bytes of one request: 413.
- `CLUSTERS_MAX`, `REGIONS_MAX`, `SERVICES_MAX` of the inventory: one more is refused.
- `CLUSTER_CALLS_MAX` requests that use one cluster at a time: the next waits, within its `CLUSTER_SECONDS`.
- `CLUSTER_SECONDS` for one request's use of a cluster: 503.
- `FAILURES_MAX` wrong keys from one address within `FAILURES_SECONDS`: 429 until that time has passed.
- `SESSIONS_MAX` sessions: the oldest ends.
- `SUBSCRIBERS_MAX` subscribers to events: 503. `SUBSCRIBER_QUEUE` unread events of a subscriber: further ones are lost and counted.
- `SERIES_MAX` lag series of `SERIES_POINTS` samples: the series without samples for longest is dropped, and a series' oldest samples.
- `TASK_ITEMS_MAX` items of one task, `TASKS_OPEN_MAX` unfinished tasks: one more is refused.
- `TASKS_KEPT` finished tasks, `AUDIT_KEPT` entries: the oldest go.
- `STATUS_PARTITIONS_MAX` partitions in a request for replica status: 400. The map counts the observers of as many, and says so; it
  polls the source positions of as many mirrored partitions.
- `PROBES_MAX` endpoints of brokers are probed, each every `PROBE_SECONDS`; the others are known from polls of their cluster only.
- `TAIL_RECORDS` of a mirror's topics are read to describe its flow; earlier ones are not shown.
"""

from typing import Final

BODY_MAX: Final = 1024 * 1024
CLUSTERS_MAX: Final = 64
REGIONS_MAX: Final = 256
SERVICES_MAX: Final = 1024

CLUSTER_CALLS_MAX: Final = 32
CLUSTER_SECONDS: Final = 15.0
OPERATION_SECONDS: Final = 3.0
"""For all attempts of one request by a cluster's client: short, because an HTTP client waits."""

FAILURES_MAX: Final = 10
FAILURES_SECONDS: Final = 60.0
FAILING_ADDRESSES_MAX: Final = 4096
"""Addresses with wrong keys that are kept; the one that failed longest ago is dropped."""
SESSIONS_MAX: Final = 1000
SESSION_SECONDS: Final = 12 * 3600

SUBSCRIBERS_MAX: Final = 64
SUBSCRIBER_QUEUE: Final = 256
HEARTBEAT_SECONDS: Final = 10.0

SERIES_MAX: Final = 2000
SERIES_POINTS: Final = 180
LAG_WINDOW_MS: Final = 15 * 60 * 1000
"""Age of the oldest samples read when the process starts."""

TASK_ITEMS_MAX: Final = 10_000
TASKS_OPEN_MAX: Final = 100
TASKS_KEPT: Final = 1000
TASK_WIDTH: Final = 8
"""Items of one task in progress at a time."""
TASK_LEASE_SECONDS: Final = 6.0
"""A task's lease: when its process has not renewed it for this long, another process resumes the task."""
TASK_PAUSE_SECONDS: Final = 0.5
TASK_SECONDS_MAX: Final = 24 * 3600
AUDIT_KEPT: Final = 100_000
PAGE_MAX: Final = 500

STATUS_PARTITIONS_MAX: Final = 2000
TAIL_RECORDS: Final = 2000
WATCH_SECONDS: Final = 2.0
WATCH_PACE_SECONDS: Final = 10.0
"""Longest interval between polls of a cluster whose polls take long; the cause may have been one broker."""
WATCH_TIMEOUT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 2.0

PROBES_MAX: Final = 1024
PROBE_SECONDS: Final = 1.5
PROBE_TIMEOUT_SECONDS: Final = 2.5
"""A working broker responds to a probe in milliseconds, over an ocean in a tenth of a second; this leaves time for a lost segment."""
PROBE_AGAIN_SECONDS: Final = 0.5
"""Interval after a first failed probe."""

assert TASK_PAUSE_SECONDS * 4 < TASK_LEASE_SECONDS
assert OPERATION_SECONDS < CLUSTER_SECONDS
