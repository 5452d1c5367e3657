"""A segment goes to the store and comes back; what is damaged or missing there is an error that names it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from isthmus_tier.core.chunks import Packing
from isthmus_tier.core.manifest import Manifest
from isthmus_tier.core.segments import RemoteSegment, State
from isthmus_tier.edge.download import DamagedObject, manifest_of, read_chunks, read_indexes
from isthmus_tier.edge.local_store import LocalStore
from isthmus_tier.edge.store import Missing
from isthmus_tier.edge.upload import SegmentFiles, delete, upload

from tests.unit.tier.segments import segment_of

CLUSTER: Final = "d2VzdC1vZi1tYW55LXdlcw"
BATCHES: Final = bytes(range(256)) * 10 + bytes(500)
SEGMENT: Final = segment_of(1, 100, 199, size=len(BATCHES))
INDEXES: Final = {"index": b"offsets" * 9, "timeindex": b"times", "txnindex": b""}
CHUNK: Final = 1000


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def send(store: LocalStore, packing: Packing, segment: RemoteSegment = SEGMENT) -> Manifest:
    files = SegmentFiles(lambda position, size: BATCHES[position : position + size], INDEXES)
    return upload(store, CLUSTER, segment, files, packing, chunk_bytes=CHUNK)


@pytest.mark.parametrize("compresses", [False, True])
def test_a_segment_comes_back(store: LocalStore, *, compresses: bool) -> None:
    packing = Packing(compresses)
    sent = send(store, packing)
    manifest = manifest_of(store, CLUSTER, SEGMENT)
    assert manifest.segment == replace(SEGMENT, state=State.COPY_FINISHED)
    assert manifest.log.chunks == sent.log.chunks
    count = len(manifest.log.chunks)
    assert count == 4
    assert b"".join(read_chunks(store, manifest, packing, 0, count)) == BATCHES
    assert b"".join(read_chunks(store, manifest, packing, 1, 2)) == BATCHES[1000:3000]
    assert read_indexes(store, manifest, packing) == INDEXES


def test_nothing_remains_of_a_deleted_segment(store: LocalStore) -> None:
    send(store, Packing())
    delete(store, CLUSTER, SEGMENT)
    delete(store, CLUSTER, SEGMENT)
    assert list(store.list("")) == []
    with pytest.raises(Missing, match=r"\.manifest"):
        manifest_of(store, CLUSTER, SEGMENT)


def test_a_manifest_is_the_last_to_come_and_the_first_to_go(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    put, remove = LocalStore.put, LocalStore.delete

    def noting_put(self: LocalStore, name: str, pieces: Iterable[bytes]) -> None:
        steps.append(name)
        put(self, name, pieces)

    def noting_delete(self: LocalStore, name: str) -> None:
        steps.append(name)
        remove(self, name)

    monkeypatch.setattr(LocalStore, "put", noting_put)
    monkeypatch.setattr(LocalStore, "delete", noting_delete)
    send(store, Packing())
    delete(store, CLUSTER, SEGMENT)
    kinds = [name.rpartition(".")[2] for name in steps]
    assert kinds == ["log", "indexes", "manifest", "manifest", "indexes", "log"]


@pytest.mark.parametrize("kind", ["log", "indexes", "manifest"])
def test_a_damaged_object_is_named(store: LocalStore, kind: str) -> None:
    send(store, Packing())
    (name,) = [one.name for one in store.list("") if one.name.endswith(kind)]
    content = bytearray(store.get(name))
    content[len(content) // 2] ^= 1
    store.put(name, [bytes(content)])
    with pytest.raises(DamagedObject, match=kind):
        read_all(store)


def test_an_object_that_is_too_short_is_named(store: LocalStore) -> None:
    send(store, Packing())
    (name,) = [one.name for one in store.list("") if one.name.endswith("log")]
    store.put(name, [store.get(name)[:-1]])
    with pytest.raises(DamagedObject, match="chunk 3 has 59 bytes, not 60"):
        read_all(store)


def test_a_manifest_of_another_segment_is_refused(store: LocalStore) -> None:
    send(store, Packing())
    other = segment_of(2, 100, 199, size=len(BATCHES))
    (mine,) = [one.name for one in store.list("") if one.name.endswith("manifest")]
    send(store, Packing(), other)
    (its,) = [one.name for one in store.list("") if one.name.endswith("manifest") and one.name != mine]
    store.put(mine, [store.get(its)])
    with pytest.raises(DamagedObject, match="another segment"):
        manifest_of(store, CLUSTER, SEGMENT)


def read_all(store: LocalStore) -> None:
    manifest = manifest_of(store, CLUSTER, SEGMENT)
    list(read_chunks(store, manifest, Packing(), 0, len(manifest.log.chunks)))
    read_indexes(store, manifest, Packing())
