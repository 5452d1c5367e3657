"""Where the objects of a segment lie in a store.

    v1/CLUSTER/TOPIC-TOPICID/PARTITION/START-SEGMENTID.log        the batches, in chunks
                                      /START-SEGMENTID.indexes    the indexes, the producer snapshot and the leader epochs
                                      /START-SEGMENTID.manifest   what both contain

Ids are in Kafka's text form, START has 20 digits. The manifest is written last and deleted first: where it is, the segment is whole.
"""

from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.uuid_text import parse_uuid, uuid_text

from isthmus_tier.core.segments import Place, RemoteSegment

VERSION: Final = "v1"
LOG: Final = "log"
INDEXES: Final = "indexes"
MANIFEST: Final = "manifest"
KINDS: Final = (LOG, INDEXES, MANIFEST)
_ID_LENGTH: Final = 22
_OFFSET_DIGITS: Final = 20


class ObjectName(NamedTuple):
    """The name of an object taken apart."""

    cluster_id: str
    place: Place
    start_offset: int
    segment: UUID
    kind: str

    def __str__(self) -> str:
        start = f"{self.start_offset:0{_OFFSET_DIGITS}d}"
        return f"{place_prefix(self.cluster_id, self.place)}{start}-{uuid_text(self.segment)}.{self.kind}"


def cluster_prefix(cluster_id: str) -> str:
    """What all names of a cluster's objects begin with."""
    return f"{VERSION}/{cluster_id}/"


def place_prefix(cluster_id: str, place: Place) -> str:
    """What the names of a partition's objects begin with."""
    return f"{cluster_prefix(cluster_id)}{place.topic}-{uuid_text(place.topic_id)}/{place.partition}/"


def object_name(cluster_id: str, segment: RemoteSegment, kind: str) -> str:
    """The name of a segment's object of this kind."""
    return str(ObjectName(cluster_id, segment.place, segment.start_offset, segment.id, kind))


def parse_name(name: str) -> ObjectName | None:
    """Take a name apart; None for an object that is not part of a segment."""
    parts = name.split("/")
    if len(parts) != 5 or parts[0] != VERSION:
        return None
    _, cluster_id, topic, partition, file = parts
    stem, _, kind = file.rpartition(".")
    try:
        place = Place(topic[: -_ID_LENGTH - 1], parse_uuid(topic[-_ID_LENGTH:]), int(partition))
        parsed = ObjectName(cluster_id, place, int(stem[:_OFFSET_DIGITS]), parse_uuid(stem[-_ID_LENGTH:]), kind)
    except ValueError:
        return None
    # Only names that are written exactly so: others would be read but not found again.
    return parsed if kind in KINDS and str(parsed) == name else None
