"""What is in a store: the segments by the names of their objects, and whether their bytes are what was written."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from isthmus_tier.core.chunks import Packing, WrongKey
from isthmus_tier.core.manifest import Manifest
from isthmus_tier.core.names import KINDS, MANIFEST, VERSION, ObjectName, parse_name
from isthmus_tier.edge.download import read_chunks, read_indexes, read_manifest
from isthmus_tier.edge.encryption import KeyRing
from isthmus_tier.edge.store import ObjectStore, StoreError

CHUNKS_AT_ONCE: Final = 8


@dataclass(slots=True)
class StoredSegment:
    """The objects of one copy of a segment."""

    name: ObjectName
    """Of its manifest, whether there is one or not."""
    sizes: dict[str, int] = field(default_factory=dict)
    """By kind."""

    @property
    def is_whole(self) -> bool:
        """Whether all objects are there. One that is not is being copied or deleted, or was left by a crash."""
        return len(self.sizes) == len(KINDS)

    @property
    def stored(self) -> int:
        """The bytes of all objects."""
        return sum(self.sizes.values())


def list_segments(store: ObjectStore, topics: Iterable[str] = ()) -> list[StoredSegment]:
    """The segments of these topics, by default of all, in the order of their names; raises StoreError."""
    chosen = frozenset(topics)
    segments: dict[ObjectName, StoredSegment] = {}
    for stored in store.list(f"{VERSION}/"):
        name = parse_name(stored.name)
        if name is not None and (not chosen or name.place.topic in chosen):
            key = name._replace(kind=MANIFEST)
            segments.setdefault(key, StoredSegment(key)).sizes[name.kind] = stored.size
    return [segments[key] for key in sorted(segments, key=str)]


def verify(store: ObjectStore, segment: StoredSegment, keys: KeyRing | None) -> str | None:
    """Read a segment whole and check every byte; returns what is wrong, if anything is."""
    if not segment.is_whole:
        return f"has no {', no '.join(kind for kind in KINDS if kind not in segment.sizes)}"
    try:
        manifest = read_manifest(store, str(segment.name))
        packing = packing_of(manifest, keys)
        for first in range(0, len(manifest.log.chunks), CHUNKS_AT_ONCE):
            count = min(CHUNKS_AT_ONCE, len(manifest.log.chunks) - first)
            for _ in read_chunks(store, manifest, packing, first, count):
                pass
        read_indexes(store, manifest, packing)
    except (StoreError, WrongKey) as error:
        return str(error)
    return None


def packing_of(manifest: Manifest, keys: KeyRing | None) -> Packing:
    """How to read a segment; raises WrongKey without the key that it needs."""
    if manifest.key is None:
        return Packing()
    if keys is None:
        raise WrongKey(f"it is encrypted with the key {manifest.key.wrapped_by!r}")
    return Packing(cipher=keys.for_stored(manifest.segment.id, manifest.key))
