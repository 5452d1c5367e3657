"""What every object store must do, against each kind."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from isthmus_tier.edge.local_store import LocalStore
from isthmus_tier.edge.store import Missing, ObjectStore, Refused, StoreError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    store = LocalStore(tmp_path / "store")
    yield store
    store.close()


def names(store: ObjectStore, prefix: str) -> list[str]:
    return sorted(one.name for one in store.list(prefix))


def test_an_object_is_read_whole_and_in_part(store: ObjectStore) -> None:
    store.put("a/b", [b"0123", b"", b"456789"])
    assert store.get("a/b") == b"0123456789"
    assert store.get("a/b", 3, 4) == b"3456"
    assert store.get("a/b", 8, 100) == b"89"
    assert store.get("a/b", 8) == b"89"


def test_an_object_replaces_one_of_its_name(store: ObjectStore) -> None:
    store.put("a", [b"long before"])
    store.put("a", [b"now"])
    assert store.get("a") == b"now"


def test_an_object_may_be_empty(store: ObjectStore) -> None:
    store.put("empty", [])
    assert store.get("empty") == b""
    assert [(one.name, one.size) for one in store.list("")] == [("empty", 0)]


def test_a_missing_object_is_named(store: ObjectStore) -> None:
    with pytest.raises(Missing, match="no/such"):
        store.get("no/such")


def test_a_listing_has_what_begins_with_the_prefix(store: ObjectStore) -> None:
    before = time.time() * 1000
    for name in ("a/1", "a/2", "ab", "b/1"):
        store.put(name, [name.encode()])
    assert names(store, "a/") == ["a/1", "a/2"]
    assert names(store, "a") == ["a/1", "a/2", "ab"]
    assert names(store, "") == ["a/1", "a/2", "ab", "b/1"]
    assert names(store, "c/") == []
    (listed,) = store.list("b/")
    assert listed.size == 3
    assert before - 5_000 <= listed.written_ms <= time.time() * 1000 + 5_000


def test_a_deleted_object_is_gone_and_may_be_deleted_again(store: ObjectStore) -> None:
    store.put("a/b/c", [b"x"])
    store.delete("a/b/c")
    store.delete("a/b/c")
    store.delete("never/was")
    assert names(store, "") == []


def test_an_interrupted_object_does_not_appear(store: ObjectStore) -> None:
    def pieces() -> Iterator[bytes]:
        yield bytes(100)
        assert names(store, "") == []
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError, match="the source failed"):
        store.put("a", pieces())
    assert names(store, "") == []


def test_calls_may_be_made_in_any_thread(store: ObjectStore) -> None:
    def work(number: int) -> None:
        name = f"of/{number}"
        for turn in range(20):
            store.put(name, [f"{turn}".encode()])
            assert store.get(name) == f"{turn}".encode()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert names(store, "of/") == ["of/0", "of/1", "of/2", "of/3"]


class TestLocalStore:
    """What is particular to a directory."""

    def test_nothing_remains_of_what_was_deleted(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path / "store")
        store.put("a/b/c", [b"x"])
        store.delete("a/b/c")
        assert [path for path in (tmp_path / "store").iterdir() if path.name != ".unfinished"] == []

    def test_what_a_crash_left_is_discarded_when_it_is_old(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path / "store")
        store.put("a", [b"x"])
        left = tmp_path / "store" / ".unfinished" / "left"
        left.write_bytes(b"torn")
        now_ms = int(time.time() * 1000)
        store.discard_unfinished(now_ms - 60_000)
        assert left.exists()
        store.discard_unfinished(now_ms + 60_000)
        assert not left.exists()
        assert store.get("a") == b"x"

    def test_a_directory_that_may_not_be_written_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"")
        with pytest.raises(StoreError, match=r"file://.*file: a: Not a directory"):
            LocalStore(file).put("a", [b"x"])

    def test_a_refusal_has_its_own_class(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "mkdir", refuse)
        with pytest.raises(Refused, match="Permission denied"):
            LocalStore(tmp_path / "store").put("a", [b"x"])
