"""What may become of a mirror topic: one table, from its state and what is asked to the state it has then.

| state              | pause  | resume | promote         | failover | finish-promotion | fail   | source-lost        | source-found |
|--------------------|--------|--------|-----------------|----------|------------------|--------|--------------------|--------------|
| ACTIVE             | PAUSED | same   | PENDING_STOPPED | STOPPED  | -                | FAILED | SOURCE_UNAVAILABLE | same         |
| PAUSED             | same   | ACTIVE | -               | STOPPED  | -                | FAILED | same               | same         |
| SOURCE_UNAVAILABLE | PAUSED | -      | -               | STOPPED  | -                | FAILED | same               | ACTIVE       |
| FAILED             | -      | ACTIVE | -               | STOPPED  | -                | same   | same               | same         |
| PENDING_STOPPED    | -      | -      | same            | STOPPED  | STOPPED          | FAILED | same               | same         |
| STOPPED            | -      | -      | same            | same     | same             | -      | -                  | -            |

A failed topic that is resumed is tried again. What a worker reports of a source changes nothing where an operator has the word.
LINK_PAUSED and LINK_FAILED are no states of their own: an active topic is told so while its link is.
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
    """The source comes and goes unnoticed unless the row says otherwise."""
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
    """The state a mirror topic has after an action; None when the action makes no sense in its state."""
    return _TABLE[state].get(action)


def why_not(state: MirrorState, action: MirrorAction) -> str:
    """What to say of an action that `after` does not know."""
    if state is _STOPPED:
        return "it is stopped: it takes clients' writes, and cannot be a copy again."
    possible = sorted(known for known in _TABLE[state] if _TABLE[state][known] is not state)
    return f"it is {state}; what can be done now: {', '.join(possible)}."
