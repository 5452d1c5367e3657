"""Encrypted segments: only who has the operator's key reads them, and a key can be replaced."""

import base64
from pathlib import Path
from uuid import UUID

import pytest
from isthmus_tier.core.chunks import Packing, WrongKey
from isthmus_tier.core.manifest import WrappedKey
from isthmus_tier.edge.download import DamagedObject, manifest_of, read_chunks, read_indexes
from isthmus_tier.edge.encryption import BadKeys, KeyRing, read_keys
from isthmus_tier.edge.local_store import LocalStore
from isthmus_tier.edge.upload import SegmentFiles, upload

from tests.unit.tier.segments import segment_of

OLD, NEW = KeyRing({"old": bytes(32)}), KeyRing({"new": b"n" * 32, "old": bytes(32)})
SEGMENT = segment_of(1, 0, 99, size=2500)
BATCHES = b"secret" * 416 + b"last"
CLUSTER = "d2VzdC1vZi1tYW55LXdlcw"


def send(store: LocalStore, keys: KeyRing) -> None:
    cipher, key = keys.for_new(SEGMENT.id)
    files = SegmentFiles(lambda position, size: BATCHES[position : position + size], {"index": b"secret index"})
    upload(store, CLUSTER, SEGMENT, files, Packing(True, cipher), key, chunk_bytes=1000)


def read(store: LocalStore, keys: KeyRing) -> tuple[bytes, dict[str, bytes]]:
    manifest = manifest_of(store, CLUSTER, SEGMENT)
    assert manifest.key is not None
    packing = Packing(True, keys.for_stored(SEGMENT.id, manifest.key))
    return b"".join(read_chunks(store, manifest, packing, 0, 3)), read_indexes(store, manifest, packing)


def test_what_is_stored_is_read_with_the_key_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    send(store, OLD)
    assert all(b"secret" not in store.get(one.name) for one in store.list(""))
    assert read(store, OLD) == (BATCHES, {"index": b"secret index"})
    assert read(store, NEW) == (BATCHES, {"index": b"secret index"}), "a new key before it does not matter"
    with pytest.raises(WrongKey, match="needs the key 'old'"):
        read(store, KeyRing({"other": bytes(32)}))
    with pytest.raises(WrongKey, match="the key 'old' in the file of keys is not the one"):
        read(store, KeyRing({"old": b"x" * 32}))


def test_the_first_key_encrypts(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    send(store, NEW)
    assert read(store, NEW)[0] == BATCHES
    with pytest.raises(WrongKey, match="needs the key 'new'"):
        read(store, OLD)


def test_chunks_cannot_change_places(tmp_path: Path) -> None:
    """An attacker who can also change the manifest could make their checksums right."""
    cipher = OLD.for_new(SEGMENT.id).cipher
    chunk, stored = Packing(cipher=cipher).pack(0, b"x" * 10)
    assert Packing(cipher=cipher).unpack(0, chunk, stored) == b"x" * 10
    with pytest.raises(WrongKey, match="chunk 1"):
        Packing(cipher=cipher).unpack(1, chunk, stored)


def test_a_segment_with_the_key_of_another_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    send(store, OLD)
    manifest = manifest_of(store, CLUSTER, SEGMENT)
    assert manifest.key is not None
    cipher = OLD.for_stored(UUID(int=2), manifest.key)
    with pytest.raises(DamagedObject, match="chunk 0 was encrypted with another key"):
        list(read_chunks(store, manifest, Packing(True, cipher), 0, 1))


def test_a_file_of_keys_is_read(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(
        f"# of 2026\nnew {base64.b64encode(b'n' * 32).decode()}\n\nold {base64.b64encode(bytes(32)).decode()}\n"
    )
    encryption = read_keys(path).for_new(SEGMENT.id)
    assert encryption.key.wrapped_by == "new"
    NEW.for_stored(SEGMENT.id, encryption.key)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", r"has no key; add a line with a name and the output of 'openssl rand -base64 32'"),
        ("name", "line 1: not a name and a key"),
        ("# x\nname !", "line 2: the key is not base64"),
        ("name AAAA", "line 1: the key has 3 bytes, not 32"),
        (f"a {base64.b64encode(bytes(32)).decode()}\n" * 2, "line 2: there is another key of the name 'a'"),
    ],
)
def test_a_bad_file_of_keys_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(BadKeys, match=reason):
        read_keys(path)


def test_a_missing_file_of_keys_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadKeys, match=r"cannot read the keys in .*keys: .*No such file"):
        read_keys(tmp_path / "keys")


def test_a_damaged_wrapped_key_is_refused() -> None:
    with pytest.raises(WrongKey):
        OLD.for_stored(SEGMENT.id, WrappedKey("old", bytes(40)))
