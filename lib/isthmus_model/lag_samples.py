"""Samples of lag: one schema for links, mirror flows, observers and followers.

A sample is a record of the topic `__isthmus_lag` in the cluster that holds the copy: the key names the copy, the value is JSON with its
version, so any Kafka client and Spark's own connector can read it.
"""

import json
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Final

VERSION: Final = 1
_NUMBERS: Final = ("partition", "target_broker", "source_end", "target_end", "lag_ms", "at_ms")


class CopyKind(StrEnum):
    """What writes the copy."""

    LINK = "link"
    MIRROR = "mirror"
    OBSERVER = "observer"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True, order=True)
class Copy:
    """One copy of one partition: the subject of samples. `target_broker` is -1 for links and mirrors."""

    kind: CopyKind
    link: str
    """The name of the link or of the mirror's flow; empty for replicas of one cluster."""
    source_cluster: str
    target_cluster: str
    source_region: str
    target_region: str
    source_topic: str
    topic: str
    partition: int
    target_broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample(Copy):
    """One copy of one partition at one moment.

    `lag_ms` is how long ago the copy last had all that its source had: what would be lost, had the source gone at `at_ms`, is what was
    written in that time. It is 0 for a copy that has everything and -1 when that was never seen.
    """

    source_end: int
    target_end: int
    """The offset of the source up to which the copy has records (for a mirror that translates offsets: not the target's own)."""
    lag_ms: int
    at_ms: int

    @property
    def lag_records(self) -> int:
        """Offsets that the copy does not have yet."""
        return max(self.source_end - self.target_end, 0)

    def as_copy(self) -> Copy:
        """What the sample is of."""
        return Copy(**{field.name: getattr(self, field.name) for field in fields(Copy)})

    def key(self) -> bytes:
        """The same for every sample of one copy, so that they lie in one partition, in order."""
        return f"{self.kind}/{self.link}/{self.topic}/{self.partition}/{self.target_broker}".encode()

    def value(self) -> bytes:
        """The JSON of the record."""
        document = {"version": VERSION, **asdict(self), "lag_records": self.lag_records}
        return json.dumps(document, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes | None) -> "LagSample":
        """The sample of a record. Raises ValueError for any other record, and for a later version."""
        try:
            document = json.loads(value or b"")
            values = {field.name: document[field.name] for field in fields(LagSample)}
            kind = CopyKind(values["kind"])
            if document["version"] != VERSION or not all(isinstance(values[name], int) for name in _NUMBERS):
                raise ValueError("another version or type")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"not a sample of lag: {error!r}") from error
        return LagSample(**{**values, "kind": kind})
