"""Outcomes of a task's step, and its progress messages."""

from collections.abc import Callable
from dataclasses import dataclass

Tell = Callable[[str], None]
"""Report the progress of a long step; the last message counts."""


@dataclass(frozen=True, slots=True)
class Done:
    """The item is done, by this step or an earlier one."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The item failed."""

    message: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """The item is not finished; repeat the step later."""

    message: str = ""


Outcome = Done | Failed | NotYet
