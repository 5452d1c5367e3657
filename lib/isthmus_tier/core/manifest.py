"""The manifest of a segment: all that is known of it, so that a cluster can be restored from the store alone.

It is JSON, with the checksum of its own content, and can be read with any tool.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from crc32c import crc32c
from isthmus_model.uuid_text import parse_uuid, uuid_text

from isthmus_tier.core.chunks import Chunk, ChunkTable, Damaged
from isthmus_tier.core.segments import EpochStart, Place, RemoteSegment, State

VERSION: Final = 1


class UnknownManifest(Exception):
    """A manifest of a later release."""


class WrappedKey(NamedTuple):
    """The key of a segment, encrypted with one of the operator's."""

    wrapped_by: str
    """The name of the operator's key."""
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A segment and its objects."""

    cluster_id: str
    segment: RemoteSegment
    log: ChunkTable
    indexes: Mapping[str, Chunk]
    """By suffix of the file, in the order in which they lie in their object."""
    compressed: bool = False
    key: WrappedKey | None = None

    @property
    def stored(self) -> int:
        """The bytes of the two objects that it describes."""
        return self.log.stored + sum(chunk.stored for chunk in self.indexes.values())


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of the object."""
    segment = manifest.segment
    content = {
        "version": VERSION,
        "cluster": manifest.cluster_id,
        "topic": segment.place.topic,
        "topic_id": uuid_text(segment.place.topic_id),
        "partition": segment.place.partition,
        "segment": uuid_text(segment.id),
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "epochs": segment.epochs,
        "size": segment.size,
        "largest_timestamp": segment.largest_timestamp,
        "broker": segment.broker_id,
        "copied_ms": segment.changed_ms,
        "has_aborted": segment.has_aborted,
        "compressed": manifest.compressed,
        "key": None if manifest.key is None else [manifest.key.wrapped_by, b64encode(manifest.key.data).decode()],
        "log": manifest.log.chunks,
        "indexes": [[name, *chunk] for name, chunk in manifest.indexes.items()],
    }
    return _dump({"checksum": _checksum(content), "content": content})


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest; raises Damaged or UnknownManifest."""
    try:
        document = json.loads(data)
        content = document["content"]
        if content["version"] > VERSION:
            raise UnknownManifest(f"version {content['version']} of a manifest, where this release knows {VERSION}")
        if document["checksum"] != _checksum(content):
            raise Damaged("the checksum of the manifest is wrong")
        return _manifest(content)
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"the manifest cannot be read: {error}") from error


def _manifest(content: Mapping[str, Any]) -> Manifest:
    segment = RemoteSegment(
        place=Place(content["topic"], parse_uuid(content["topic_id"]), content["partition"]),
        id=parse_uuid(content["segment"]),
        start_offset=content["start_offset"],
        end_offset=content["end_offset"],
        epochs=tuple(EpochStart(*one) for one in content["epochs"]),
        size=content["size"],
        largest_timestamp=content["largest_timestamp"],
        broker_id=content["broker"],
        changed_ms=content["copied_ms"],
        state=State.COPY_FINISHED,
        has_aborted=content["has_aborted"],
    )
    key = content["key"]
    return Manifest(
        cluster_id=content["cluster"],
        segment=segment,
        log=ChunkTable(Chunk(*one) for one in content["log"]),
        indexes={name: Chunk(*chunk) for name, *chunk in content["indexes"]},
        compressed=content["compressed"],
        key=None if key is None else WrappedKey(key[0], b64decode(key[1])),
    )


def _checksum(content: object) -> int:
    return crc32c(_dump(content))


def _dump(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
