"""The subscriptions of a consumer group's members, counted so that a change costs its own size and not the group's."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.group.member import ConsumerMember


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched at one version of the metadata."""

    topics: frozenset[str]
    version: int
    resolved_ms: MonotonicMs = field(compare=False)


@dataclass(slots=True)
class Subscriptions:
    """Counts of members by topic name and by regular expression, and of resolved expressions by topic."""

    names: dict[str, int] = field(default_factory=dict)
    regexes: dict[str, int] = field(default_factory=dict)
    resolved: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "Subscriptions":
        """A copy, to evaluate a change."""
        return Subscriptions(dict(self.names), dict(self.regexes), dict(self.resolved))

    def replace_member(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Apply a member's addition, change or removal."""
        if old is not None:
            _add(self.names, old.topics, -1)
            _add(self.regexes, _regex(old), -1)
        if new is not None:
            _add(self.names, new.topics, 1)
            _add(self.regexes, _regex(new), 1)

    def replace_resolved(self, old: Iterable[str], new: Iterable[str]) -> None:
        """Replace the topics of a regular expression."""
        _add(self.resolved, old, -1)
        _add(self.resolved, new, 1)

    def topics(self) -> set[str]:
        """All subscribed topics."""
        return self.names.keys() | self.resolved.keys()

    def includes(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.names or topic in self.resolved

    def homogeneous(self, members: int) -> bool:
        """Whether all members subscribe to the same topics: by name only, or by one regular expression only."""
        if not self.regexes:
            return all(count == members for count in self.names.values()) and not self.resolved
        return (
            next(iter(self.regexes.values())) == members
            and not self.names
            and all(count == 1 for count in self.resolved.values())
        )


def _regex(member: ConsumerMember) -> tuple[str, ...]:
    return (member.regex,) if member.regex else ()


def _add(counts: dict[str, int], keys: Iterable[str], change: int) -> None:
    for key in keys:
        count = counts.get(key, 0) + change
        if count > 0:
            counts[key] = count
        else:
            counts.pop(key, None)
