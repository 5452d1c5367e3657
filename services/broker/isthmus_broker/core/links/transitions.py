"""The states of a mirror topic: one table from a state and an action to the next state.

| state              | pause  | resume | promote         | failover | finish-promotion | fail   | source-lost        | source-found |
|--------------------|--------|--------|-----------------|----------|------------------|--------|--------------------|--------------|
| ACTIVE             | PAUSED | same   | PENDING_STOPPED | STOPPED  | -                | FAILED | SOURCE_UNAVAILABLE | same         |
| PAUSED             | same   | ACTIVE | -               | STOPPED  | -                | FAILED | same               | same         |
| SOURCE_UNAVAILABLE | PAUSED | -      | -               | STOPPED  | -                | FAILED | same               | ACTIVE       |
| FAILED             | -      | ACTIVE | -               | STOPPED  | -                | same   | same               | same         |
| PENDING_STOPPED    | -      | -      | same            | STOPPED  | STOPPED          | FAILED | same               | same         |
| STOPPED            | -      | -      | same            | same     | same             | -      | -                  | -            |

A failed topic that is resumed is tried again. A worker's report about a source never overrides an operator's decision.
LINK_PAUSED and LINK_FAILED are not states of their own: an active topic is described so while its link is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from isthmus_wire.extensions.mirrors import MirrorAction, MirrorState

_Row = Mapping[MirrorAction, MirrorState]
_ACTIVE: Final = MirrorState.ACTIVE
_PAUSED: Final = MirrorState.PAUSED
_LOST: Final = MirrorState.SOURCE_UNAVAILABLE
_FAILED: Final = MirrorState.FAILED
_PENDING: Final = MirrorState.PENDING_STOPPED
_STOPPED: Final = MirrorState.STOPPED


def _row(state: MirrorState, **named: MirrorState) -> _Row:
    """A loss or return of the source changes nothing unless the row says otherwise."""
    noted = {MirrorAction.SOURCE_LOST: state, MirrorAction.SOURCE_FOUND: state}
    return {**noted, **{MirrorAction[name.upper()]: after for name, after in named.items()}}


_TABLE: Final[Mapping[MirrorState, _Row]] = {
    _ACTIVE: _row(
        _ACTIVE, pause=_PAUSED, resume=_ACTIVE, promote=_PENDING, failover=_STOPPED, fail=_FAILED, source_lost=_LOST
    ),
    _PAUSED: _row(_PAUSED, pause=_PAUSED, resume=_ACTIVE, failover=_STOPPED, fail=_FAILED),
    _LOST: _row(_LOST, pause=_PAUSED, failover=_STOPPED, fail=_FAILED, source_found=_ACTIVE),
    _FAILED: _row(_FAILED, resume=_ACTIVE, failover=_STOPPED, fail=_FAILED),
    _PENDING: _row(_PENDING, promote=_PENDING, failover=_STOPPED, finish_promotion=_STOPPED, fail=_FAILED),
    _STOPPED: {
        MirrorAction.PROMOTE: _STOPPED,
        MirrorAction.FAILOVER: _STOPPED,
        MirrorAction.FINISH_PROMOTION: _STOPPED,
    },
}


def after(state: MirrorState, action: MirrorAction) -> MirrorState | None:
    """The state of a mirror topic after an action; None if the action is not possible in its state."""
    return _TABLE[state].get(action)


def why_not(state: MirrorState, action: MirrorAction) -> str:
    """Explain why `after` returned None."""
    if state is _STOPPED:
        return "it is stopped: clients can write to it, and it cannot become a mirror topic again."
    possible = sorted(each for each in _TABLE[state] if _TABLE[state][each] is not state)
    return f"it is {state}; possible actions: {', '.join(possible)}."
