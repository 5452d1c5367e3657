"""Whether a link's source can be reached: unavailable after several checks in a row that failed, available after one that did not."""

from dataclasses import dataclass, field
from typing import NamedTuple

from isthmus_wire.extensions.links import LinkError, LinkState


class Health(NamedTuple):
    """What is to be reported of a link."""

    state: LinkState = LinkState.ACTIVE
    error: LinkError = LinkError.NO_ERROR
    message: str = ""


@dataclass(slots=True)
class LinkHealth:
    """Of one link."""

    _failures: int = 0
    _health: Health = field(default_factory=Health)

    @property
    def now(self) -> Health:
        """As the last checks left it."""
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

    def wrong_source(self, message: str) -> None:
        """Somebody answered who is another cluster: nothing may be copied from it."""
        self._health = Health(LinkState.FAILED, LinkError.UNKNOWN, message)
