"""One operation of the active controller: the function that decides a request, and the one that refuses it.

A decision takes the latest image and a request in the class of its highest version, and returns records and a response. The caller appends
the records to the metadata log as one batch, applies them to `ImageHistory`, and sends the response once they are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from isthmus_model.clocks import MonotonicMs, WallMs

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result
from isthmus_broker.core.metadata.sessions import Sessions


class KraftVersion(NamedTuple):
    """The version of the quorum, which is not part of the image."""

    level: int
    can_upgrade: bool
    """Whether every voter supports the next level."""


@dataclass(frozen=True, slots=True)
class DecisionContext(ControllerContext):
    """The inputs of a single decision besides the controller's settings: clocks, the brokers' sessions, and the quorum's state."""

    wall_ms: WallMs
    monotonic_ms: MonotonicMs
    sessions: Sessions
    next_offset: int
    kraft: KraftVersion

    @classmethod
    def of(
        cls,
        context: ControllerContext,
        *,
        wall_ms: WallMs,
        monotonic_ms: MonotonicMs,
        sessions: Sessions,
        next_offset: int,
        kraft: KraftVersion,
    ) -> DecisionContext:
        """The controller's context with the values of this moment."""
        return cls(
            context.node,
            context.cluster_id,
            context.random,
            context.new_id,
            wall_ms=wall_ms,
            monotonic_ms=monotonic_ms,
            sessions=sessions,
            next_offset=next_offset,
            kraft=kraft,
        )


class ControllerOperation(NamedTuple):
    """Declared by the request's file in `edge/requests`."""

    decide: Callable[[ClusterImage, Any, DecisionContext], Result[Any]]
    refuse: Callable[[Any, ControllerError], Any]
    """The response that refuses the request as a whole."""

    def perform(self, image: ClusterImage, request: Any, context: DecisionContext) -> Result[Any]:
        """Decide the request; one that is refused as a whole results in no records."""
        try:
            return self.decide(image, request, context)
        except ControllerError as refusal:
            return Result((), self.refuse(request, refusal))
