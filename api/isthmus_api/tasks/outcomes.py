"""What a step of a task comes to."""

from dataclasses import dataclass


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
