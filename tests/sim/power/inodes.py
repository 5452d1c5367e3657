"""Files and directories of a simulated disk: what a process sees, and what has reached the platter."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

DIRTY_MAX: Final = 256
"""Unsynced changes of one file that are kept apart; beyond it the kernel has written the older ones back."""


@dataclass(slots=True)
class Change:
    """One write, or with `data` None a truncation to `position`."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        grow = self.position - len(content)
        if grow > 0:
            content.extend(bytes(grow))
        if self.data is None:
            del content[self.position :]
        else:
            content[self.position : self.position + len(self.data)] = self.data


class File:
    """One file: `content` is the page cache, `stable` the platter, `dirty` the changes in between, oldest first."""

    __slots__ = ("content", "dirty", "failed_syncs", "is_linked", "is_locked", "lost_pages", "modified_ms", "stable")

    def __init__(self, modified_ms: int) -> None:
        self.content = bytearray()
        self.stable = bytearray()
        self.dirty: list[Change] = []
        self.modified_ms = modified_ms
        self.is_locked = False
        self.is_linked = True
        self.failed_syncs = 0
        self.lost_pages = False
        """Whether the page cache has bytes that no sync writes any more."""

    def change(self, change: Change, now_ms: int) -> None:
        """Change the page cache."""
        change.apply(self.content)
        self.dirty.append(change)
        self.modified_ms = now_ms
        if len(self.dirty) > DIRTY_MAX:
            self._write_back(self.dirty[: DIRTY_MAX // 2])
            del self.dirty[: DIRTY_MAX // 2]

    def sync(self) -> None:
        """Make the page cache durable, except for changes that an earlier failed sync has dropped."""
        self._write_back(self.dirty)
        self.dirty.clear()

    def fail_sync(self, random: Random) -> None:
        """Write some of the pages and mark all of them clean, as Linux does."""
        self._write_back(_survivors(self.dirty, random))
        self.dirty.clear()
        self.lost_pages = True
        self.failed_syncs += 1

    def lose_power(self, survives: "Survival", random: Random) -> None:
        """Lose the page cache. Unsynced changes survive by chance, whole or in part."""
        self._write_back(survives(self.dirty, random))
        self.dirty.clear()
        self.content = bytearray(self.stable)
        self.is_locked = self.lost_pages = False

    def _write_back(self, changes: list[Change]) -> None:
        for change in changes:
            change.apply(self.stable)


Survival = Callable[[list[Change], Random], list[Change]]


def _survivors(changes: list[Change], random: Random) -> list[Change]:
    """Any of the changes, each of them whole, torn at both ends, or missing."""
    survivors = []
    for change in changes:
        fate = random.random()
        if fate < 0.35:
            continue
        if fate < 0.65 or change.data is None:
            survivors.append(change)
            continue
        begin = 0 if random.random() < 0.7 else random.randrange(len(change.data) + 1)
        end = random.randint(begin, len(change.data))
        if end > begin:
            survivors.append(Change(change.position + begin, change.data[begin:end]))
    return survivors


def _prefix(changes: list[Change], random: Random) -> list[Change]:
    """The oldest changes, the last of them torn."""
    count = random.randint(0, len(changes))
    survivors = changes[:count]
    if survivors:
        last = survivors[-1]
        if last.data is not None:
            survivors[-1] = Change(last.position, last.data[: random.randint(0, len(last.data))])
    return survivors


def draw_survival(random: Random) -> Survival:
    """How files fare in one power loss: nothing unsynced survives, all of it, a prefix, or any part."""
    return random.choice((lambda _changes, _random: [], lambda changes, _random: changes, _prefix, _survivors))


class Directory:
    """One directory: `entries` is what a process sees, `stable` what is on the platter."""

    __slots__ = ("entries", "stable")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.stable: dict[str, Node] = {}


Node = File | Directory


class Entry(NamedTuple):
    """A name in a directory."""

    directory: Directory
    name: str
    node: Node


@dataclass(slots=True)
class EntryChange:
    """A creation, a removal, or both at once for a rename. It is atomic."""

    removed: Entry | None = None
    added: Entry | None = None
    directories: set[int] = field(init=False)
    """Identities of the directories that it changes, and of one that it removes."""

    def __post_init__(self) -> None:
        self.directories = {id(entry.directory) for entry in (self.removed, self.added) if entry is not None}
        if self.removed is not None and self.added is None and isinstance(self.removed.node, Directory):
            self.directories.add(id(self.removed.node))  # it is empty: what was in it has been moved or removed

    def apply(self, *, stable: bool) -> None:
        if self.removed is not None:
            directory, name, node = self.removed
            entries = directory.stable if stable else directory.entries
            if entries.get(name) is node:  # on the platter the name may still belong to an older file
                del entries[name]
        if self.added is not None:
            directory, name, node = self.added
            (directory.stable if stable else directory.entries)[name] = node


class Entries:
    """The changes of directory entries that are not durable, oldest first."""

    def __init__(self) -> None:
        self._pending: list[EntryChange] = []

    def change(self, change: EntryChange) -> None:
        change.apply(stable=False)
        self._pending.append(change)
        if len(self._pending) > 4 * DIRTY_MAX:
            self._commit(self._pending[: 2 * DIRTY_MAX])

    def sync(self, directory: Directory) -> None:
        """Make a directory's entries durable, with the earlier changes that they depend on."""
        needed = {id(directory)}
        self._commit([change for change in reversed(self._pending) if _depends(change, needed)][::-1])

    def _commit(self, changes: list[EntryChange]) -> None:
        for change in changes:
            change.apply(stable=True)
        committed = set(map(id, changes))
        self._pending = [change for change in self._pending if id(change) not in committed]

    def lose_power(self, random: Random) -> None:
        """Unsynced changes survive by chance: none, all, the oldest, or any."""
        count = random.randint(0, len(self._pending))
        for change in random.choice(([], self._pending, self._pending[:count], _any_of(self._pending, random))):
            change.apply(stable=True)
        self._pending = []


def _depends(change: EntryChange, needed: set[int]) -> bool:
    """Whether the change is in one of the directories; if so, adds the directories it depends on."""
    if not change.directories & needed:
        return False
    needed |= change.directories
    return True


def _any_of(pending: list[EntryChange], random: Random) -> list[EntryChange]:
    """Any of the changes; a directory is removed only with everything that emptied it."""
    emptied: set[int] = set()
    survivors = []
    for change in reversed(pending):
        if random.random() < 0.5 or change.directories & emptied:
            survivors.append(change)
            if change.added is None and change.removed is not None and isinstance(change.removed.node, Directory):
                emptied.add(id(change.removed.node))
    return survivors[::-1]
