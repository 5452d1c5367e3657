"""A segment on its way to the store."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final, NamedTuple

from isthmus_tier.core.chunks import CHUNK_BYTES, Chunk, ChunkTable, Packing
from isthmus_tier.core.manifest import Manifest, WrappedKey, encode_manifest
from isthmus_tier.core.names import INDEXES, KINDS, LOG, MANIFEST, object_name
from isthmus_tier.core.segments import RemoteSegment
from isthmus_tier.edge.store import ObjectStore

FIRST_INDEX: Final = 1 << 31
"""The number of the first index among the chunks of a segment: above every number of a chunk of batches."""


class SegmentFiles(NamedTuple):
    """What the broker has of a segment."""

    read: Callable[[int, int], bytes]
    """Read the batches: from a position, so many bytes."""
    indexes: Mapping[str, bytes]
    """By suffix of the file."""


def upload(
    store: ObjectStore,
    cluster_id: str,
    segment: RemoteSegment,
    files: SegmentFiles,
    packing: Packing,
    key: WrappedKey | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Manifest:
    """Write the objects of a segment, the manifest last; raises StoreError."""
    chunks: list[Chunk] = []

    def batches() -> Iterator[bytes]:
        for number, position in zip(count(), range(0, segment.size, chunk_bytes)):
            chunk, stored = packing.pack(number, files.read(position, min(chunk_bytes, segment.size - position)))
            chunks.append(chunk)
            yield stored

    store.put(object_name(cluster_id, segment, LOG), batches())
    packed = {
        name: packing.pack(number, data) for number, (name, data) in enumerate(files.indexes.items(), FIRST_INDEX)
    }
    store.put(object_name(cluster_id, segment, INDEXES), (stored for _, stored in packed.values()))
    manifest = Manifest(
        cluster_id=cluster_id,
        segment=segment,
        log=ChunkTable(chunks),
        indexes={name: chunk for name, (chunk, _) in packed.items()},
        compressed=packing.compresses,
        key=key,
    )
    store.put(object_name(cluster_id, segment, MANIFEST), [encode_manifest(manifest)])
    return manifest


def delete(store: ObjectStore, cluster_id: str, segment: RemoteSegment) -> None:
    """Delete the objects of a segment, the manifest first; raises StoreError. What is deleted already stays so."""
    for kind in reversed(KINDS):
        store.delete(object_name(cluster_id, segment, kind))
