"""Whether the source of a link is reachable: the one place that decides it. Link state, mirror states, tasks and metrics follow.

The source becomes unreachable after the number of consecutive failed checks in the link's settings (`availability.check.*`), and reachable
after the first successful check. Brokers that do not respond to fetches, and partitions without a leader, are reported with an ACTIVE link.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus_wire.extensions.links import LinkError, LinkState
from isthmus_wire.extensions.mirrors import MirrorAction


class Health(NamedTuple):
    """What to report of a link."""

    state: LinkState = LinkState.ACTIVE
    error: LinkError = LinkError.NO_ERROR
    message: str = ""

    @property
    def mirror_action(self) -> MirrorAction | None:
        """What this means for the link's mirror topics; None while a link that failed must not change them."""
        return _MIRROR_ACTIONS.get(self.state)


_MIRROR_ACTIONS: Final = {
    LinkState.ACTIVE: MirrorAction.SOURCE_FOUND,
    LinkState.UNAVAILABLE: MirrorAction.SOURCE_LOST,
}
_PROBLEMS_SHOWN: Final = 3


@dataclass(slots=True)
class SourceReachability:
    """The source of one link. `health` is a decision at one moment: read it once, and report link and mirror topics from it."""

    unresponsive_brokers: set[int] = field(default_factory=set)
    """Brokers of the source whose last fetch failed."""
    _is_verified: bool = False
    _failures: int = 0
    _outcome: Health = field(default_factory=Health)
    _leaderless: tuple[str, ...] = ()

    @property
    def health(self) -> Health:
        """The current decision."""
        problems = [
            *(f"broker {broker} of the source does not respond" for broker in sorted(self.unresponsive_brokers)),
            *(f"partition {partition} has no leader at the source" for partition in self._leaderless),
        ]
        if problems and self._outcome.state is LinkState.ACTIVE:
            return Health(LinkState.ACTIVE, LinkError.TIMEOUT_ERROR, _summary(problems))
        return self._outcome

    @property
    def is_verified(self) -> bool:
        """Whether the source has responded, and is the link's source cluster. Nothing is copied before."""
        return self._is_verified

    @property
    def may_report_mirrors(self) -> bool:
        """Whether the state of mirror topics follows from `health`: a worker that has not reached the source cannot report it as
        reachable."""
        return self._is_verified or self._outcome.state is LinkState.UNAVAILABLE

    def check_succeeded(self) -> None:
        """Record a successful check."""
        self._failures, self._outcome, self._is_verified = 0, Health(), True

    def check_failed(self, error: LinkError, message: str, threshold: int) -> None:
        """Record a failed check; `threshold` consecutive failures make the source unreachable."""
        self._failures += 1
        if self._failures >= threshold:
            self._outcome = Health(LinkState.UNAVAILABLE, error, message)

    def wrong_cluster(self, message: str) -> None:
        """Record that another cluster responded: nothing may be copied from it."""
        self._outcome, self._is_verified = Health(LinkState.FAILED, LinkError.UNKNOWN, message), False

    def record_leaderless(self, partitions: Collection[str]) -> None:
        """The partitions that have no leader at the source now."""
        self._leaderless = tuple(partitions)


def _summary(problems: Sequence[str]) -> str:
    shown = "; ".join(problems[:_PROBLEMS_SHOWN])
    more = len(problems) - _PROBLEMS_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown
