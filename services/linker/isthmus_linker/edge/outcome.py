"""How a task of a link went."""

from typing import Final, NamedTuple

INTERNAL_ERROR: Final = "INTERNAL_ERROR"


class Outcome(NamedTuple):
    """An error of the reference, or none."""

    error: str = "NO_ERROR"
    message: str = ""


FINE: Final = Outcome()
