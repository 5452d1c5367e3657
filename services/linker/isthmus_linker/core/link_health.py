"""Whether a link's source can be reached: unavailable after several checks in a row that failed, available after one that did not; and
what it lacks while it can be."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus_wire.extensions.links import LinkError, LinkState


class Health(NamedTuple):
    """What is to be reported of a link."""

    state: LinkState = LinkState.ACTIVE
    error: LinkError = LinkError.NO_ERROR
    message: str = ""


_FINE: Final = Health()
_SHOWN: Final = 3


@dataclass(slots=True)
class LinkHealth:
    """Of one link."""

    _failures: int = 0
    _health: Health = field(default_factory=Health)
    _trouble: str = ""

    @property
    def now(self) -> Health:
        """As the last checks left it. A source that answers may have brokers that do not."""
        if self._trouble and self._health == _FINE:
            return Health(LinkState.ACTIVE, LinkError.TIMEOUT_ERROR, self._trouble)
        return self._health

    @property
    def is_unavailable(self) -> bool:
        """Whether the source cannot be reached."""
        return self._health.state is LinkState.UNAVAILABLE

    def reached(self) -> None:
        """The source answered."""
        self._failures, self._health = 0, Health()

    def missed(self, error: LinkError, message: str, threshold: int) -> None:
        """The source did not answer."""
        self._failures += 1
        if self._failures >= threshold:
            self._health = Health(LinkState.UNAVAILABLE, error, message)

    def misses(self, trouble: Sequence[str]) -> None:
        """What of the source cannot be copied now."""
        shown = "; ".join(trouble[:_SHOWN])
        self._trouble = f"{shown}; and {len(trouble) - _SHOWN} more" if len(trouble) > _SHOWN else shown

    def wrong_source(self, message: str) -> None:
        """Somebody answered who is another cluster: nothing may be copied from it."""
        self._health = Health(LinkState.FAILED, LinkError.UNKNOWN, message)
