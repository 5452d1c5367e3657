"""Samples of load: what each replica of a broker holds and moves. Brokers write them to `__isthmus_metrics`; the balancer reads them.

A record holds up to `PARTITIONS_PER_RECORD` replicas of one broker; those of one moment share `at_ms`, and `part` of `parts` numbers them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

VERSION: Final = 1
PARTITIONS_PER_RECORD: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoad:
    """One replica; rates are bytes a second since the sample before, and only a leader has any."""

    topic: str
    partition: int
    is_leader: bool
    size: int
    bytes_in: float
    bytes_out: float
    """To consumers; what other replicas fetch is `replicated_out`."""
    replicated_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """Some replicas of a broker at one moment."""

    broker: int
    rack: str
    at_ms: int
    part: int
    parts: int
    replicas: tuple[ReplicaLoad, ...]

    def key(self) -> bytes:
        """The record key: one per broker, so that its samples stay in order in one partition."""
        return str(self.broker).encode()

    def value(self) -> bytes:
        """The JSON of the record."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "LoadSample":
        """Parse a record's value; ignores fields of later versions. Raises ValueError for a malformed sample."""
        try:
            decoded: dict[str, Any] = json.loads(value)
            replicas = tuple(
                ReplicaLoad(**{name: each[name] for name in ReplicaLoad.__slots__}) for each in decoded["replicas"]
            )
            fields = {name: decoded[name] for name in LoadSample.__slots__ if name != "replicas"}
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a sample of load: {error!r}") from error
        return LoadSample(**fields, replicas=replicas)


def load_samples(broker: int, rack: str, at_ms: int, replicas: Sequence[ReplicaLoad]) -> Iterator[LoadSample]:
    """The records of one broker at one moment; one without replicas says so too."""
    starts = range(0, len(replicas), PARTITIONS_PER_RECORD) or range(1)
    for part, start in enumerate(starts):
        yield LoadSample(
            broker=broker,
            rack=rack,
            at_ms=at_ms,
            part=part,
            parts=len(starts),
            replicas=tuple(replicas[start : start + PARTITIONS_PER_RECORD]),
        )
