"""Regular expressions over topic names, in RE2's syntax and in time linear in the name.

Kafka hands members' expressions to RE2J. Python's `re` backtracks: one expression of a hostile client could hold the event loop for
ever. So this is the small part of RE2 that topic names need: an expression is parsed to a tree, the tree to a Thompson automaton, and
that is run as a deterministic one whose states are made when they are first met. Topic names are ASCII, so classes are sets of ASCII
characters. An expression matches when the whole name does; captures and greediness make no difference and are dropped.
"""

from dataclasses import dataclass, field
from typing import Final

from isthmus_broker.core.group.regex_syntax import (
    EVERY,
    Alternatives,
    Anchor,
    InvalidRegex,
    Node,
    Repeat,
    Sequence,
    WordBoundary,
    parse,
)

__all__ = ["InvalidRegex", "TooMuchWork", "TopicPattern"]

# An expression may need this many automaton states; beyond it is refused, as an invalid one is. RE2J only bounds each repetition.
STATES_MAX: Final = 5_000
# Deterministic states kept; when there are more all are forgotten and made again.
CACHED_STATES_MAX: Final = 1_000
# Automaton states that one pattern may visit in its life, about half a second's worth; a resolution that needs more is given up.
VISITS_MAX: Final = 2_000_000

_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class TooMuchWork(Exception):
    """Matching would hold the event loop for too long."""


@dataclass(slots=True)
class _State:
    """Reads a character of `chars` and goes on to `after`, or reads nothing and goes to each of `forks`, if `assertion` holds there."""

    chars: frozenset[str] | None = None
    after: int = -1
    forks: list[int] = field(default_factory=list)
    assertion: str = ""


class TopicPattern:
    """A compiled expression; raises InvalidRegex with RE2J's description of what is wrong."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._states: list[_State] = []
        self._final = self._new()
        self._start = self._compile(parse(pattern), self._final)
        self._cache: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._visits = 0

    def matches(self, name: str) -> bool:
        """Whether the whole name matches; raises TooMuchWork."""
        if not name:
            return self._final in self._closure({self._start}, "", "")
        before = ""
        pending = frozenset({self._start})
        for char in name:
            pending = self._step(pending, before, char)
            if not pending:
                return False
            before = char
        return self._final in self._closure(pending, before, "")

    def _step(self, pending: frozenset[int], before: str, char: str) -> frozenset[int]:
        """What is possible after `char`. `before` only matters to assertions: to be at the start, or after a word character."""
        context = char + (before if not before else "w" if before in _WORD else "-")
        key = (pending, context)
        after = self._cache.get(key)
        if after is None:
            closed = self._closure(pending, before, char)
            after = frozenset(
                state.after
                for state in (self._states[index] for index in closed)
                if state.chars is not None and char in state.chars
            )
            if len(self._cache) >= CACHED_STATES_MAX:
                self._cache.clear()
            self._cache[key] = after
        return after

    def _closure(self, pending: frozenset[int] | set[int], before: str, char: str) -> set[int]:
        """Everything reachable without reading, between `before` and `char`, which are empty at the ends of the name."""
        seen = set(pending)
        stack = list(pending)
        while stack:
            state = self._states[stack.pop()]
            if state.chars is not None or not _holds(state.assertion, before, char):
                continue
            for index in state.forks:
                if index not in seen:
                    seen.add(index)
                    stack.append(index)
        self._visits += len(seen)
        if self._visits > VISITS_MAX:
            raise TooMuchWork
        return seen

    # Building: every method returns the state to enter, given the one to go on to.

    def _new(self, chars: frozenset[str] | None = None, after: int = -1) -> int:
        if len(self._states) >= STATES_MAX:
            raise InvalidRegex("expression too large")
        self._states.append(_State(chars, after))
        return len(self._states) - 1

    def _fork(self, *targets: int, assertion: str = "") -> int:
        index = self._new()
        self._states[index].forks.extend(targets)
        self._states[index].assertion = assertion
        return index

    def _compile(self, node: Node, then: int) -> int:
        match node:
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._compile(part, then)
                return then
            case Alternatives(branches):
                return self._fork(*(self._compile(branch, then) for branch in branches))
            case Repeat(part, least, most):
                return self._repeat(part, least, most, then)
            case Anchor(at_start):
                return self._fork(then, assertion="^" if at_start else "$")
            case WordBoundary(negated):
                return self._fork(then, assertion="B" if negated else "b")
            case chars:
                return self._new(chars, then)

    def _repeat(self, part: Node, least: int, most: int | None, then: int) -> int:
        if most is None:
            loop = self._fork(then)
            self._states[loop].forks.append(self._compile(part, loop))
            then = loop
        else:
            leave = then
            for _ in range(most - least):
                then = self._fork(leave, self._compile(part, then))
        for _ in range(least):
            then = self._compile(part, then)
        return then


def _holds(assertion: str, before: str, char: str) -> bool:
    match assertion:
        case "^":
            return before == ""
        case "$":
            return char == ""
        case "b":
            return (before in _WORD) != (char in _WORD)
        case "B":
            return (before in _WORD) == (char in _WORD)
        case _:
            return True


assert _WORD < EVERY
