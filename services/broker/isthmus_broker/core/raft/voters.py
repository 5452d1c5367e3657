"""The voters according to the log: every voter set with the offset of its record, so that truncation restores the previous one."""

from isthmus_broker.core.raft.types import ReplicaKey, VoterSet


class VoterHistory:
    """Voter sets by offset.

    The last one is effective, committed or not: two successive ones differ by one voter, so that any majority of one intersects any
    majority of the other (KIP-853). The static voters of the settings are effective only while the log has none (kraft.version 0).
    """

    def __init__(self, static: VoterSet | None, recorded: tuple[tuple[int, VoterSet], ...]) -> None:
        self._static = static
        self._sets = list(recorded)

    @property
    def is_static(self) -> bool:
        """Whether the voters are those of the settings."""
        return self._static is not None and not self._sets

    @property
    def kraft_version(self) -> int:
        """1 if the voters are in the log, 0 if they are in the settings."""
        return 0 if self.is_static else 1

    @property
    def current(self) -> VoterSet:
        return self._sets[-1][1] if self._sets else self._static or VoterSet()

    @property
    def offset(self) -> int:
        """Offset of the current set's record; -1 if the set is not from the log."""
        return self._sets[-1][0] if self._sets else -1

    def at(self, end_offset: int) -> VoterSet | None:
        """The set in effect below `end_offset`, to be written to a snapshot; None for static voters."""
        earlier = [voters for offset, voters in self._sets if offset < end_offset]
        return earlier[-1] if earlier else None

    def append(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.offset
        self._sets.append((offset, voters))

    def truncate_to(self, offset: int) -> None:
        self._sets = [(at, voters) for at, voters in self._sets if at < offset]

    def drop_before(self, offset: int) -> None:
        """Drop all but the last set from before `offset`."""
        before = [each for each in self._sets if each[0] < offset][-1:]
        self._sets = before + [each for each in self._sets if each[0] >= offset]

    def install(self, end_offset: int, voters: VoterSet | None) -> None:
        """Replace the sets by the one in a received snapshot."""
        self._sets = [(end_offset - 1, voters)] if voters is not None else []

    def is_voter(self, key: ReplicaKey) -> bool:
        return self.current.contains(key)

    def may_elect(self, key: ReplicaKey, committed: int) -> bool:
        """Whether this replica may start an election: it is a voter, or it was one before a change that may not be committed.

        A voter that is being removed may be the only one whose log is complete enough to win; without it no leader could be elected (the
        raft dissertation, 4.2.2).
        """
        count = sum(offset >= committed for offset, _ in self._sets)
        sets = [VoterSet() if self._static is None else self._static, *(voters for _, voters in self._sets)]
        return any(voters.contains(key) for voters in sets[-count - 1 :])
