"""Every bound of the control plane, and what happens there.

- `BODY_MAX` bytes of one request: 413.
- `CLUSTERS_MAX`, `REGIONS_MAX`, `SERVICES_MAX` of the inventory: one more is refused.
- `CLUSTER_CALLS_MAX` requests that use one cluster at a time: the next waits, within its `CLUSTER_SECONDS`.
- `CLUSTER_SECONDS` for one request's use of a cluster: 503.
- `FAILURES_MAX` wrong keys from one address within `FAILURES_SECONDS`: 429 until that time has passed.
- `SESSIONS_MAX` sessions: the oldest ends.
- `SUBSCRIBERS_MAX` readers of events: 503. `SUBSCRIBER_QUEUE` events that one has not read: it is told how many it lost.
- `SERIES_MAX` lag series of `SERIES_POINTS` samples: the series that has been silent longest goes, and a series' oldest samples.
- `TASK_ITEMS_MAX` items of one task, `TASKS_OPEN_MAX` unfinished tasks: one more is refused.
- `TASKS_KEPT` finished tasks, `AUDIT_KEPT` entries: the oldest go.
- `STATUS_PARTITIONS_MAX` partitions whose replicas one request tells: 400. The map counts the observers of as many, and says so;
  it hears of the sources of as many mirrored partitions.
- `PROBES_MAX` addresses of brokers are asked whether they answer, each every `PROBE_SECONDS`: of the others their cluster alone tells.
- `TAIL_RECORDS` of a mirror's topics are read to describe its flow: what lies before them is not told.
"""

from typing import Final

BODY_MAX: Final = 1024 * 1024
CLUSTERS_MAX: Final = 64
REGIONS_MAX: Final = 256
SERVICES_MAX: Final = 1024

CLUSTER_CALLS_MAX: Final = 32
CLUSTER_SECONDS: Final = 15.0
OPERATION_SECONDS: Final = 3.0
"""Of attempts by the client of one cluster: short, for somebody waits at the other end of the request."""

FAILURES_MAX: Final = 10
FAILURES_SECONDS: Final = 60.0
FAILING_ADDRESSES_MAX: Final = 4096
"""Addresses with wrong keys that are remembered; the one that failed longest ago is forgotten."""
SESSIONS_MAX: Final = 1000
SESSION_SECONDS: Final = 12 * 3600

SUBSCRIBERS_MAX: Final = 64
SUBSCRIBER_QUEUE: Final = 256
HEARTBEAT_SECONDS: Final = 10.0

SERIES_MAX: Final = 2000
SERIES_POINTS: Final = 180
LAG_WINDOW_MS: Final = 15 * 60 * 1000
"""How far back the samples are read when the process starts."""

TASK_ITEMS_MAX: Final = 10_000
TASKS_OPEN_MAX: Final = 100
TASKS_KEPT: Final = 1000
TASK_WIDTH: Final = 8
"""Items of one task that are worked on at a time."""
TASK_LEASE_SECONDS: Final = 6.0
"""A process that has not renewed its hold of a task for so long is gone, and another takes the task over."""
TASK_PAUSE_SECONDS: Final = 0.5
TASK_SECONDS_MAX: Final = 24 * 3600
AUDIT_KEPT: Final = 100_000
PAGE_MAX: Final = 500

STATUS_PARTITIONS_MAX: Final = 2000
TAIL_RECORDS: Final = 2000
WATCH_SECONDS: Final = 2.0
WATCH_PACE_SECONDS: Final = 10.0
"""A cluster that takes long to be looked at is looked at this seldom, and no less: it may have been a broker that did not answer."""
WATCH_TIMEOUT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 2.0

PROBES_MAX: Final = 1024
PROBE_SECONDS: Final = 1.5
PROBE_ANSWER_SECONDS: Final = 2.5
"""A broker that works answers an empty question in milliseconds, also over an ocean and on a machine that is busy; this leaves time for a
segment that is lost."""
PROBE_AGAIN_SECONDS: Final = 0.5
"""After one question without an answer."""

assert TASK_PAUSE_SECONDS * 4 < TASK_LEASE_SECONDS
assert OPERATION_SECONDS < CLUSTER_SECONDS
