"""Where a node answers differently from Apache Kafka because we want it to: the whole list, each with its reason.

A choice that matches no difference any more fails the test.
"""

from typing import Final, NamedTuple


class Choice(NamedTuple):
    """Differences by place (group/exchange/step/field, with wildcards), and why they are right."""

    where: str
    reason: str


CHOICES: Final[tuple[Choice, ...]] = ()
