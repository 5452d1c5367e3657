"""The outcome of a link's task."""

from typing import Final, NamedTuple

INTERNAL_ERROR: Final = "INTERNAL_ERROR"


class Outcome(NamedTuple):
    """An error code of Confluent's reference, or none."""

    error: str = "NO_ERROR"
    message: str = ""


FINE: Final = Outcome()
