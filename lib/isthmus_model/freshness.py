"""When information about a copy or its source is stale: the one policy for brokers, linkers, mirrors, control plane and command line.

Stale information says nothing about the present: a promotion refuses to rely on it, and a lag computed from it is shown with its age.
"""

from typing import Final

REPORT_INTERVAL_MS: Final = 1_000
"""How often a linker reports the source's position of an idle partition to the destination."""
STALE_MS: Final = 5_000
"""Older information is stale, unless it is only due every few seconds."""
_INTERVALS: Final = 3


def is_stale(age_ms: int | None, interval_ms: int = REPORT_INTERVAL_MS) -> bool:
    """Whether information of this age, due at this interval, is stale; None is the age of information that never came."""
    return age_ms is None or age_ms > max(STALE_MS, _INTERVALS * interval_ms)
