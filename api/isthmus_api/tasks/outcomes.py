"""What a step of a task comes to, and what it says meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass

Tell = Callable[[str], None]
"""How far a long step is, in a few words; the last ones count."""


@dataclass(frozen=True, slots=True)
class Done:
    """It is done, by this step or by an earlier one."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot be done."""

    message: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """Try again; everything that was done already stays done."""

    message: str = ""


Outcome = Done | Failed | NotYet
