"""Two logs with a record of the same epoch at the same offset are equal up to that record."""

from __future__ import annotations

from tests.sim.replication.checkers.truth import CommittedStays
from tests.sim.replication.sim_log import Record, SimLog
from tests.sim.world import Violation


class LogsMatch:
    """It is enough to compare each record and its predecessor when they appear in a log: the rest follows by induction."""

    def __init__(self, truth: CommittedStays) -> None:
        self._truth = truth
        self._seen: dict[tuple[str, int, int], tuple[Record, Record | None]] = {}

    def appended(self, log: SimLog, first: int) -> None:
        start, kept = first - log.base, self._truth.topics[log.topic].start
        for index in range(start, len(log.records)):
            record = log.records[index]
            before = log.records[index - 1] if index and log.base + index > kept else None
            known, known_before = self._seen.setdefault((log.topic, record[0], log.base + index), (record, before))
            if known != record or (before is not None and known_before is not None and known_before != before):
                raise Violation(
                    f"broker {log.broker_id} has {before}, {record} at {log.base + index} of {log.topic}, where another "
                    f"has {known_before}, {known}"
                )
