"""Majority arithmetic: when votes decide, and which offset a majority has reached."""

from collections.abc import Sequence
from dataclasses import dataclass, field


def majority(size: int) -> int:
    """The smallest number of members such that any two majorities share a member."""
    assert size > 0
    return size // 2 + 1


def majority_offset(ends: Sequence[int]) -> int:
    """The largest offset that a majority of the members has reached."""
    return sorted(ends, reverse=True)[majority(len(ends)) - 1]


@dataclass(slots=True)
class Ballot:
    """The votes of one election round. Its voters are fixed when it opens."""

    voters: tuple[int, ...]
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    """Voters whose process is dead: they cannot vote now, but may when they are back."""
    unresponsive: set[int] = field(default_factory=set)
    """Voters that did not respond within the fetch timeout. They may still vote, but an election waits for them only briefly."""

    def record(self, voter: int, granted: bool) -> None:
        """Count a vote. Only a voter's first vote counts."""
        self.gone.discard(voter)
        self.unresponsive.discard(voter)
        if voter in self.voters and voter not in self.granted | self.rejected:
            (self.granted if granted else self.rejected).add(voter)

    def is_won(self) -> bool:
        return len(self.granted) >= majority(len(self.voters))

    def is_lost(self) -> bool:
        """Whether a majority can no longer be reached, as far as is known of the voters."""
        return len(self.voters) - len(self.rejected | self.gone) < majority(len(self.voters))

    def needs_unresponsive(self) -> bool:
        """Whether only the votes of unresponsive voters can still make a majority."""
        lost = self.rejected | self.gone | self.unresponsive
        return len(self.voters) - len(lost) < majority(len(self.voters))

    def is_majority_dead(self) -> bool:
        """Whether most voters' processes are dead, so that no election can be won."""
        return len(self.voters) - len(self.gone) < majority(len(self.voters))

    def undecided(self) -> tuple[int, ...]:
        return tuple(voter for voter in self.voters if voter not in self.granted | self.rejected)

    def granting(self) -> tuple[int, ...]:
        return tuple(sorted(self.granted))
