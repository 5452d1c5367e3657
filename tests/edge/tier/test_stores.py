"""What every object store must do, against each kind."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from isthmus_tier.edge.local_store import LocalStore
from isthmus_tier.edge.open_store import UnknownStore, open_store
from isthmus_tier.edge.parts import PART_BYTES
from isthmus_tier.edge.s3_store import S3Store
from isthmus_tier.edge.store import Missing, ObjectStore, Refused, StoreError

from tests.object_stores import BUCKET, fresh_gcs_store, fresh_s3_store, gcs_server, s3_server
from tests.ports import free_ports


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def gcs() -> Iterator[str]:
    with gcs_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["file", "s3", "gs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    store: ObjectStore
    if request.param == "s3":
        store = fresh_s3_store(request.getfixturevalue("s3"))
    elif request.param == "gs":
        store = fresh_gcs_store(request.getfixturevalue("gcs"))
    else:
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
    assert store.get("a/b", 10, 5) == store.get("a/b", 2, 0) == b""


def test_a_large_object_is_sent_in_parts(store: ObjectStore) -> None:
    pieces = [bytes([number]) * (1 << 20) for number in range(20)]
    store.put("large", iter(pieces))
    assert store.get("large") == b"".join(pieces)
    assert store.get("large", PART_BYTES - 1, 2) == b"\7\10"
    assert [(one.name, one.size) for one in store.list("")] == [("large", 20 << 20)]


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
    def pieces(size: int) -> Iterator[bytes]:
        yield bytes(size)
        assert names(store, "") == []
        raise RuntimeError("the source failed")

    for size in (100, PART_BYTES, 2 * PART_BYTES + 1):
        with pytest.raises(RuntimeError, match="the source failed"):
            store.put("a", pieces(size))
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


class TestS3Store:
    """What is particular to S3."""

    def test_what_a_crash_left_is_discarded_when_it_is_old(self, s3: str) -> None:
        store = fresh_s3_store(s3)
        client, name = store._client, f"{store._prefix}left"
        client.create_multipart_upload(Bucket=BUCKET, Key=name)
        store.discard_unfinished(0)
        assert len(client.list_multipart_uploads(Bucket=BUCKET, Prefix=name)["Uploads"]) == 1
        store.discard_unfinished(1 << 60)
        assert "Uploads" not in client.list_multipart_uploads(Bucket=BUCKET, Prefix=name)

    def test_the_server_encrypts_on_request(self, s3: str) -> None:
        store = S3Store(BUCKET, "encrypted/", s3, {"ServerSideEncryption": "AES256"})
        store.put("small", [b"x"])
        store.put("large", [bytes(PART_BYTES + 1)])
        for name in ("small", "large"):
            head = store._client.head_object(Bucket=BUCKET, Key=f"encrypted/{name}")
            assert head["ServerSideEncryption"] == "AES256"

    def test_a_bucket_that_does_not_exist_is_a_refusal(self, s3: str) -> None:
        with pytest.raises(Refused, match=r"s3://nowhere/: a: .*NoSuchBucket"):
            S3Store("nowhere", endpoint=s3).put("a", [b"x"])

    def test_a_server_that_does_not_respond_is_named(self) -> None:
        (port,) = free_ports(1)
        with pytest.raises(StoreError, match=rf"s3://b/: a: .*127.0.0.1:{port}"):
            S3Store("b", endpoint=f"http://127.0.0.1:{port}").get("a")


@pytest.mark.parametrize("url", ["", "/dir", "file://host/dir", "file:dir", "s3://", "http://x/y", "gs:///x"])
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(UnknownStore, match="use file:///DIR, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"):
        open_store(url)


def test_a_url_names_a_store(s3: str, gcs: str) -> None:
    assert str(open_store("file:///some/where")) == "file:///some/where"
    assert str(open_store("s3://bucket/a/b/", s3)) == "s3://bucket/a/b/"
    assert str(open_store("s3://bucket", s3)) == "s3://bucket/"
    assert str(open_store("gs://bucket/a", gcs)) == "gs://bucket/a/"
