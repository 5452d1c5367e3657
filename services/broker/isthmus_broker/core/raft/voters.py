"""Who votes, as the log says it: every voter set with the offset that brought it, so that truncation brings back the one before."""

from isthmus_broker.core.raft.types import ReplicaKey, VoterSet


class VoterHistory:
    """Voter sets by offset. The last one counts, committed or not: two successive ones differ by one voter, so that any majority
    of one meets any majority of the other (KIP-853). With static voters there is one set for ever."""

    def __init__(self, static: VoterSet | None, recorded: tuple[tuple[int, VoterSet], ...]) -> None:
        self.is_static = static is not None
        self._sets: list[tuple[int, VoterSet]] = [(-1, static)] if static is not None else list(recorded)

    @property
    def current(self) -> VoterSet:
        return self._sets[-1][1] if self._sets else VoterSet()

    @property
    def offset(self) -> int:
        """Where the current set stands; -1 when no log entry says it."""
        return self._sets[-1][0] if self._sets else -1

    def at(self, end_offset: int) -> VoterSet | None:
        """The set that the entries below `end_offset` announce, to be kept in a snapshot; None for static voters."""
        found = [voters for offset, voters in self._sets if offset < end_offset]
        return None if self.is_static or not found else found[-1]

    def append(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.offset
        if not self.is_static:
            self._sets.append((offset, voters))

    def truncate_to(self, offset: int) -> None:
        self._sets = [(at, voters) for at, voters in self._sets if at < offset]

    def drop_before(self, offset: int) -> None:
        """Forget all but the last set from before `offset`."""
        before = [each for each in self._sets if each[0] < offset][-1:]
        self._sets = before + [each for each in self._sets if each[0] >= offset]

    def install(self, end_offset: int, voters: VoterSet | None) -> None:
        """Take over what a received snapshot says."""
        if not self.is_static:
            self._sets = [(end_offset - 1, voters)] if voters is not None else []

    def is_voter(self, key: ReplicaKey) -> bool:
        return self.current.contains(key)

    def may_elect(self, key: ReplicaKey, committed: int) -> bool:
        """Whether this replica may stand for election: it votes, or it did before a change that is not known to be committed.

        A voter that is being removed may be the only one whose log is long enough to win; without it nobody could ever lead
        again (the raft dissertation, 4.2.2).
        """
        count = sum(offset >= committed for offset, _ in self._sets)
        return any(voters.contains(key) for _, voters in self._sets[-count - 1 :])
