"""A node copies closed segments to its tier: all of them, once each, whatever happens meanwhile, and nothing remains of a deleted topic."""

import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from isthmus_client.admin import configs
from isthmus_client.admin.configs import Change, Operation, Resource
from isthmus_client.requests_by_broker import results
from isthmus_model.config_resources import ResourceType
from isthmus_tier.core.chunks import Packing
from isthmus_tier.core.manifest import Manifest
from isthmus_tier.core.names import MANIFEST, parse_name
from isthmus_tier.edge.download import read_chunks, read_indexes, read_manifest
from isthmus_tier.edge.local_store import LocalStore
from isthmus_wire.records import batches

from tests.node import Node, running_node
from tests.ports import free_ports
from tests.process import ISTHMUS
from tests.system.quorums import query

SECONDS: Final = 60
TOPIC: Final = "tiered"
CONFIG: Final = {"remote.storage.enable": "true", "segment.bytes": "1048576", "file.delete.delay.ms": "0"}
RECORD: Final = bytes(10_000)


@contextmanager
def node_with_tier(tmp_path: Path, **settings: str) -> Iterator[tuple[Node, LocalStore]]:
    tier = {
        "remote.log.storage.system.enable": "true",
        "isthmus.remote.store": f"file://{tmp_path / 'store'}",
        "remote.log.manager.task.interval.ms": "100",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    }
    with running_node(tmp_path / "node", {**tier, **settings}) as node:
        yield node, LocalStore(tmp_path / "store")


def make(node: Node, topic: str = TOPIC, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=CONFIG | config)])[topic].result(SECONDS)


def fill(node: Node, records: int, topic: str = TOPIC) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "batch.size": 30_000, "linger.ms": 5})
    for _ in range(records):
        producer.produce(topic, RECORD, partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    pause = threading.Event()
    for _ in range(SECONDS * 20):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError(f"waited in vain until {what}")


def manifests(store: LocalStore, topic: str = TOPIC) -> list[Manifest]:
    """Of the topic's segments, by their first offsets."""
    named = ((one.name, parse_name(one.name)) for one in store.list("v1/"))
    read = [
        read_manifest(store, name)
        for name, parsed in named
        if parsed is not None and parsed.kind == MANIFEST and parsed.place.topic == topic
    ]
    return sorted(read, key=lambda one: one.segment.start_offset)


def closed_segments(node: Node, topic: str = TOPIC) -> list[int]:
    """The first offsets of the closed segments on the disk, and of the one that is written."""
    return sorted(int(path.stem) for path in (node.directory / "data" / f"{topic}-0").glob("*.log"))


def is_all_copied(node: Node, store: LocalStore, topic: str = TOPIC) -> bool:
    return [one.segment.start_offset for one in manifests(store, topic)] == closed_segments(node, topic)[:-1]


def check_content(node: Node, store: LocalStore, topic: str = TOPIC) -> None:
    """Every copy has the bytes of its segment, and one begins where the one before ended."""
    end = 0
    for manifest in manifests(store, topic):
        segment = manifest.segment
        assert segment.start_offset == end
        end = segment.end_offset + 1
        data = b"".join(read_chunks(store, manifest, Packing(), 0, len(manifest.log.chunks)))
        local = node.directory / "data" / f"{topic}-0" / f"{segment.start_offset:020}.log"
        assert data == local.read_bytes()
        assert next(header.base_offset for _, header in batches(data)) == segment.start_offset
        indexes = read_indexes(store, manifest, Packing())
        assert indexes["index"] == local.with_suffix(".index").read_bytes()
        assert indexes["timeindex"] == local.with_suffix(".timeindex").read_bytes()
        known = (local.parent / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        epochs = [line for line in known if int(line.split()[1]) <= segment.end_offset]
        assert indexes["leader-epoch-checkpoint"].decode().splitlines() == ["0", str(len(epochs)), *epochs]


def test_closed_segments_are_copied(tmp_path: Path) -> None:
    with node_with_tier(tmp_path) as (node, store):
        make(node)
        fill(node, 500)
        assert len(closed_segments(node)) > 4
        wait_until(lambda: is_all_copied(node, store), "all closed segments are copied")
        check_content(node, store)
        fill(node, 300)
        wait_until(lambda: is_all_copied(node, store), "later segments are copied")
        check_content(node, store)


def test_segments_without_index_entries_are_copied(tmp_path: Path) -> None:
    with node_with_tier(tmp_path) as (node, store):
        make(node, **{"segment.ms": "1"})
        for _ in range(5):
            fill(node, 1)
        assert len(closed_segments(node)) > 2
        wait_until(lambda: is_all_copied(node, store), "all closed segments are copied")


def test_a_node_that_is_killed_continues_where_it_was(tmp_path: Path) -> None:
    with node_with_tier(tmp_path) as (node, store):
        make(node)
        for _ in range(3):
            fill(node, 400)
            node.kill()
            node.start()
        wait_until(lambda: is_all_copied(node, store), "all closed segments are copied once")
        check_content(node, store)
        objects = [one.name for one in store.list("v1/")]
        assert len(objects) == 3 * len(manifests(store)), objects


def test_what_an_interrupted_copy_has_left_is_deleted_at_the_next_start(tmp_path: Path) -> None:
    unfinished = tmp_path / "store" / ".unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "old").write_bytes(b"torn")
    os.utime(unfinished / "old", (0, 0))
    (unfinished / "recent").write_bytes(b"torn")
    with node_with_tier(tmp_path):
        wait_until(lambda: [path.name for path in unfinished.iterdir()] == ["recent"], "the old file is deleted")


def test_nothing_of_a_deleted_topic_remains(tmp_path: Path) -> None:
    with node_with_tier(tmp_path) as (node, store):
        make(node)
        make(node, "other")
        fill(node, 400)
        fill(node, 400, "other")
        wait_until(lambda: is_all_copied(node, store), "all closed segments are copied")
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.delete_topics([TOPIC])[TOPIC].result(SECONDS)
        wait_until(lambda: not manifests(store), "the manifests are gone")
        wait_until(lambda: not any(f"/{TOPIC}-" in one.name for one in store.list("v1/")), "the objects are gone")
        wait_until(lambda: is_all_copied(node, store, "other"), "the other topic is copied")


def test_segments_below_the_log_start_are_deleted(tmp_path: Path) -> None:
    settings = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "0"}
    with node_with_tier(tmp_path, **settings) as (node, store):
        make(node, **{"retention.bytes": "3000000"})
        fill(node, 1_000)
        wait_until(lambda: closed_segments(node)[0] > 0, "old segments are deleted")
        wait_until(lambda: bool(manifests(store)) and is_all_copied(node, store), "the tier has what the log has")


def alter(node: Node, **settings: str) -> None:
    changes = [Change(name, Operation.SET, value) for name, value in settings.items()]
    topic = Resource(ResourceType.TOPIC, TOPIC)
    results(query(node.bootstrap, lambda admin: configs.alter(admin, {topic: changes})))


def test_tiering_is_switched_on_and_off(tmp_path: Path) -> None:
    with node_with_tier(tmp_path) as (node, store):
        make(node, **{"remote.storage.enable": "false"})
        fill(node, 300)
        assert list(store.list("")) == []
        alter(node, **{"remote.storage.enable": "true"})
        wait_until(lambda: is_all_copied(node, store), "old segments are copied")
        alter(node, **{"remote.log.copy.disable": "true"})
        fill(node, 300)
        before = len(manifests(store))
        alter(node, **{"remote.log.copy.disable": "false"})
        wait_until(lambda: len(manifests(store)) > before and is_all_copied(node, store), "copies continue")
        alter(node, **{"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
        wait_until(lambda: not list(store.list("v1/")), "the tier is empty")


@pytest.mark.parametrize("keys", [False, True])
def test_objects_are_compressed_and_encrypted(tmp_path: Path, *, keys: bool) -> None:
    settings = {"isthmus.remote.store.compression.enable": "true"}
    if keys:
        (tmp_path / "keys").write_text("blue AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
        settings["isthmus.remote.store.keys.path"] = str(tmp_path / "keys")
    with node_with_tier(tmp_path, **settings) as (node, store):
        make(node)
        fill(node, 300)
        wait_until(lambda: is_all_copied(node, store), "all closed segments are copied")
        for manifest in manifests(store):
            assert manifest.log.stored < manifest.log.size / 20
            assert (manifest.key is not None) is keys


def metrics(port: int) -> dict[str, float]:
    """The values of the topic's metrics of the tier."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS).read().decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if f'{{topic="{TOPIC}"}}' in line)
    return {
        name.partition("{")[0].removeprefix("kafka_server_brokertopicmetrics_remote"): float(value)
        for name, _, value in lines
    }


def test_metrics_have_the_lag_of_the_copies(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with node_with_tier(tmp_path, **{"isthmus.http.listen": f"127.0.0.1:{port}"}) as (node, store):
        make(node)
        fill(node, 300)
        wait_until(lambda: is_all_copied(node, store), "all closed segments are copied")
        size = sum(one.segment.size for one in manifests(store))
        wait_until(lambda: metrics(port).get("logsizebytes") == size, "the last run has ended")
        values = metrics(port)
        assert (values["copybytes_total"], values["copylagsegments"]) == (size, 0)
        assert values["copyrequests_total"] == values["logmetadatacount"] == len(manifests(store))
        assert values["copyerrors_total"] == values["copylagbytes"] == 0
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        (tmp_path / "store").write_text("not a directory")
        fill(node, 300)
        wait_until(lambda: metrics(port)["copyerrors_total"] > 0, "a copy fails")
        wait_until(lambda: metrics(port)["copylagbytes"] > 0, "the lag shows")
        (tmp_path / "store").unlink()
        (tmp_path / "elsewhere").rename(tmp_path / "store")
        wait_until(lambda: is_all_copied(node, store), "copies continue")


def isthmus(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ISTHMUS, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_commands_list_and_verify_what_is_in_the_store(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'store'}"
    (tmp_path / "keys").write_text("blue AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
    settings = {"isthmus.remote.store.keys.path": str(tmp_path / "keys")}
    with node_with_tier(tmp_path, **settings) as (node, store):
        make(node)
        fill(node, 300)
        wait_until(lambda: is_all_copied(node, store), "all closed segments are copied")
        count = len(manifests(store))
    (partition,) = json.loads(isthmus("tier", "ls", url, "-o", "json").stdout)
    assert (partition["topic"], partition["partition"], partition["segments"]) == (TOPIC, 0, count)
    assert (partition["first_offset"], partition["incomplete"]) == (0, 0)
    segments = json.loads(isthmus("tier", "ls", url, "--segments", "-o", "json").stdout)
    assert sum(one["stored_bytes"] for one in segments) == partition["stored_bytes"]
    assert json.loads(isthmus("tier", "ls", url, "--topic", "other", "-o", "json").stdout) == []

    verified = isthmus("tier", "verify", url, "--keys", tmp_path / "keys")
    assert (verified.returncode, verified.stdout.split(":")[1].strip()) == (0, "0 with errors")
    without = isthmus("tier", "verify", url, "-o", "json")
    assert without.returncode == 1
    assert len(json.loads(without.stdout)["errors"]) == count
    victim = next(one for one in (tmp_path / "store").rglob("*.log"))
    content = bytearray(victim.read_bytes())
    content[1000] ^= 1
    victim.write_bytes(content)
    damaged = json.loads(isthmus("tier", "verify", url, "--keys", tmp_path / "keys", "-o", "json").stdout)
    (error,) = damaged["errors"]
    assert "the checksum of chunk 0 is wrong" in error["error"]
    refused = isthmus("tier", "ls", "http://somewhere")
    assert refused.returncode == 1
    assert "use file:///DIR" in refused.stderr
