"""Log matching: entries with the same offset and epoch are the same in every log, and so is everything before them.

It is enough to compare each entry and its predecessor when they appear in a log: the rest follows by induction. Only durable entries
count: a crash may lose others before any node has received them, and their offsets may then get different entries.
"""

from isthmus_broker.core.raft.types import Entry

from tests.sim.raft_node import RaftNode
from tests.sim.world import Violation

Key = tuple[int, int]


class LogsMatch:
    def __init__(self, nodes: dict[int, RaftNode]) -> None:
        self._nodes = nodes
        self._entries: dict[Key, Entry] = {}
        self._before: dict[Key, Key] = {}
        self._checked: dict[int, list[Entry]] = {}

    def check(self, node_id: int) -> None:
        entries = self._nodes[node_id].disk.durable.entries
        checked = self._checked.get(node_id, [])
        if len(entries) == len(checked) and (not entries or entries[-1] is checked[-1]):
            return
        same = len(entries)
        while same and (same > len(checked) or checked[same - 1] is not entries[same - 1]):
            same -= 1
        for index in range(same, len(entries)):
            self._check(node_id, entries[index], entries[index - 1] if index else None)
        self._checked[node_id] = list(entries)

    def _check(self, node_id: int, entry: Entry, before: Entry | None) -> None:
        key = (entry.epoch, entry.base_offset)
        first = self._entries.setdefault(key, entry)
        if first != entry:
            raise Violation(f"node {node_id} logs {entry} where another has {first}")
        if before is not None:
            before_key = (before.epoch, before.base_offset)
            if self._before.setdefault(key, before_key) != before_key:
                raise Violation(f"node {node_id} has {before} before {entry}, another has {self._before[key]}")
