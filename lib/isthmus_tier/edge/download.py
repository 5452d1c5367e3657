"""A segment on its way back from the store: every byte is checked against the manifest."""

from collections.abc import Iterator

from isthmus_tier.core.chunks import Damaged, Packing, WrongKey
from isthmus_tier.core.manifest import Manifest, UnknownManifest, decode_manifest
from isthmus_tier.core.names import INDEXES, LOG, MANIFEST, object_name
from isthmus_tier.core.segments import RemoteSegment
from isthmus_tier.edge.store import ObjectStore, StoreError
from isthmus_tier.edge.upload import FIRST_INDEX


class DamagedObject(StoreError):
    """An object that is not what was written; another attempt will not help."""


def read_manifest(store: ObjectStore, name: str) -> Manifest:
    """Read the manifest of this name; raises StoreError."""
    try:
        return decode_manifest(store.get(name))
    except (Damaged, UnknownManifest) as error:
        raise DamagedObject(f"{store}: {name}: {error}") from error


def manifest_of(store: ObjectStore, cluster_id: str, segment: RemoteSegment) -> Manifest:
    """Read the manifest of a segment; raises StoreError."""
    name = object_name(cluster_id, segment, MANIFEST)
    manifest = read_manifest(store, name)
    if (manifest.segment.place, manifest.segment.id) != (segment.place, segment.id):
        raise DamagedObject(f"{store}: {name}: it describes another segment")
    return manifest


def read_chunks(store: ObjectStore, manifest: Manifest, packing: Packing, first: int, count: int) -> Iterator[bytes]:
    """The batches of these chunks, by one call of the store; raises StoreError."""
    name = object_name(manifest.cluster_id, manifest.segment, LOG)
    span = manifest.log.span(first, count)
    stored = store.get(name, span.position, span.stored)
    for number, chunk, data in manifest.log.split(span, stored):
        try:
            yield packing.unpack(number, chunk, data)
        except (Damaged, WrongKey) as error:
            raise DamagedObject(f"{store}: {name}: {error}") from error


def read_indexes(store: ObjectStore, manifest: Manifest, packing: Packing) -> dict[str, bytes]:
    """All indexes, by suffix of the file, by one call of the store; raises StoreError."""
    name = object_name(manifest.cluster_id, manifest.segment, INDEXES)
    stored, position, indexes = store.get(name), 0, {}
    for number, (suffix, chunk) in enumerate(manifest.indexes.items(), FIRST_INDEX):
        try:
            indexes[suffix] = packing.unpack(number, chunk, stored[position : position + chunk.stored])
        except (Damaged, WrongKey) as error:
            raise DamagedObject(f"{store}: {name}: {suffix}: {error}") from error
        position += chunk.stored
    return indexes
