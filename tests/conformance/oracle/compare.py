"""Two recordings side by side: every field that differs, and what of it is by choice."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from tests.conformance.oracle.choices import CHOICES, Choice
from tests.conformance.oracle.recording import Recording
from tests.conformance.oracle.talk import Step

ABSENT: Final = "ABSENT"


class Difference(NamedTuple):
    """One field that differs between the responses of Kafka and a node."""

    where: str  # group/exchange/step/field
    kafka: Any
    node: Any

    def __str__(self) -> str:
        return f"{self.where}\n    kafka: {self.kafka!r}\n    node:  {self.node!r}"


def differences(group: str, kafka: Recording, node: Recording) -> list[Difference]:
    """Every field that differs."""
    return [
        difference
        for exchange in {**kafka, **node}
        for difference in _of_steps(f"{group}/{exchange}", kafka.get(exchange, []), node.get(exchange, []))
    ]


def _of_steps(where: str, kafka: Sequence[Step], node: Sequence[Step]) -> Iterator[Difference]:
    missing = Step(ABSENT, ABSENT)
    for number, (theirs, ours) in enumerate(zip_longest(kafka, node, fillvalue=missing)):
        if theirs.asked != ours.asked:
            yield Difference(f"{where}/{number} asked", theirs.asked, ours.asked)
            return
        yield from _of_values(f"{where}/{number} {theirs.asked.rpartition(' ')[0]}", theirs.answer, ours.answer)


def _of_values(where: str, kafka: Any, node: Any) -> Iterator[Difference]:
    if isinstance(kafka, Mapping) and isinstance(node, Mapping):
        for name in [*kafka, *(name for name in node if name not in kafka)]:
            yield from _of_values(f"{where}/{name}", kafka.get(name, ABSENT), node.get(name, ABSENT))
    elif isinstance(kafka, list) and isinstance(node, list) and len(kafka) == len(node):
        for index, (theirs, ours) in enumerate(zip(kafka, node, strict=True)):
            yield from _of_values(f"{where}/{index}", theirs, ours)
    elif kafka != node or type(kafka) is not type(node):
        yield Difference(where, kafka, node)


def sort_out(group: str, found: Sequence[Difference], ours: Mapping[str, Any]) -> tuple[list[Difference], list[Choice]]:
    """Unintended differences, and choices of this group that no longer apply. `ours` are the intended answers by place."""
    unused = [choice for choice in CHOICES if choice.where.startswith(f"{group}/")]
    faults = []
    for difference in found:
        choice = choice_of(difference)
        if choice in unused:
            unused.remove(choice)
        if choice is None or difference.node != ours.get(difference.where, ABSENT):
            faults.append(difference)
    return faults, unused


def choice_of(difference: Difference) -> Choice | None:
    """The choice that a difference belongs to."""
    return next((choice for choice in CHOICES if fnmatchcase(difference.where, choice.where)), None)
