"""Produce, InitProducerId without transactions, idempotent sequences, and DescribeProducers."""

import struct
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from crc32c import crc32c
from isthmus_wire.apis import ApiKey
from isthmus_wire.records import NewRecord, build_batch

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.values import (
    LONG_AGO,
    NAMED,
    NOWHERE,
    batch,
    fetch,
    fetch_partition,
    fetch_topic,
    produce,
)

GROUP = Group()
_PRODUCE = ApiKey.PRODUCE
_MADE_UP: Final = 9_000_001


def _read(talk: Talk, name: str, partition: int = 0, offset: int = 0) -> Any:
    """Everything in a partition, as it is stored."""
    return talk.ask(ApiKey.FETCH, NAMED, **fetch(fetch_topic(name, NOWHERE, fetch_partition(partition, offset))))


def _patched(data: bytes, at: int, layout: str, value: int, *, checksum: bool = True) -> bytes:
    """A batch with one header field overwritten, and its checksum mended unless that is the point."""
    out = bytearray(data)
    struct.pack_into(layout, out, at, value)
    if checksum:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


@GROUP.exchange
def every_version(talk: Talk) -> None:
    topic_id = talk.topic("p", 3)
    talk.ask_each(_PRODUCE, range(3, 14), **produce("p", topic_id, (0, batch(2))))
    talk.ask_each(_PRODUCE, range(3, 14), **produce("p", topic_id, (1, batch(2)), acks=1))
    _read(talk, "p")


@GROUP.exchange
def versions_without_batches(talk: Talk) -> None:
    for version in (0, 1, 2):
        talk.raw(f"produce v{version}", struct.pack(">ihhihhii", 20, 0, version, 1, -1, 1, 1000, 0))


@GROUP.exchange
def no_acknowledgement(talk: Talk) -> None:
    """acks=0 never gets a response; an error closes the connection instead."""
    topic_id = talk.topic("silent")
    talk.send_only(_PRODUCE, 13, **produce("silent", topic_id, (0, batch()), acks=0))
    talk.ask(ApiKey.METADATA, 1, topics=())
    talk.send_only(_PRODUCE, 3, **produce("silent", topic_id, (0, batch()), acks=0))
    talk.send_only(_PRODUCE, 9, **produce("silent", topic_id, (0, batch()), acks=0))
    _read(talk, "silent")
    talk.send_only(_PRODUCE, 9, **produce("nowhere", NOWHERE, (0, batch()), acks=0))
    talk.ask(ApiKey.METADATA, 1, topics=())
    talk.send_only(
        _PRODUCE, 9, **produce("silent", topic_id, (0, _patched(batch(), 30, ">b", 1, checksum=False)), acks=0)
    )
    talk.ask(ApiKey.METADATA, 1, topics=())


@GROUP.exchange
def wrong_acks(talk: Talk) -> None:
    topic_id = talk.topic("acks")
    for acks in (2, -2, 32767):
        for version in (3, 8, 12, 13):
            talk.ask(_PRODUCE, version, **produce("acks", topic_id, (0, batch()), acks=acks))


@GROUP.exchange
def unknown_places(talk: Talk) -> None:
    topic_id = talk.topic("places")
    for version in (3, 5, 8, 9, 10, 12, 13):
        talk.ask(_PRODUCE, version, **produce("nowhere", NOWHERE, (0, batch())))
        talk.ask(_PRODUCE, version, **produce("places", topic_id, (7, batch()), (-1, batch()), (0, batch())))
    talk.ask(_PRODUCE, 12, **produce("", NOWHERE, (0, batch())))
    talk.ask(_PRODUCE, 13, **produce("", UUID(int=0), (0, batch())))


@GROUP.exchange
def nothing_to_write(talk: Talk) -> None:
    """Null records are left out: Kafka never responds to them."""
    topic_id = talk.topic("nothing")
    for version in (3, 9, 13):
        talk.ask(_PRODUCE, version, **produce("nothing", topic_id))
        talk.ask(_PRODUCE, version, **{**produce("nothing", topic_id), "topic_data": []})
        talk.ask(_PRODUCE, version, **produce("nothing", topic_id, (0, b"")))
        talk.ask(_PRODUCE, version, **produce("nothing", topic_id, (0, b"\0" * 60)))


@GROUP.exchange
def repeated_partitions(talk: Talk) -> None:
    topic_id = talk.topic("repeated")
    talk.ask(_PRODUCE, 12, **produce("repeated", topic_id, (0, batch(1)), (0, batch(2))))
    talk.ask(_PRODUCE, 13, **produce("repeated", topic_id, (0, batch(1)), (0, batch(2))))
    one = produce("repeated", topic_id, (0, batch()))["topic_data"][0]
    talk.ask(_PRODUCE, 12, **{**produce("repeated", topic_id), "topic_data": [one, one]})


@GROUP.exchange
def batches_that_are_wrong(talk: Talk) -> None:
    good = batch(2)
    cases = {
        "wrong checksum": _patched(good, 17, ">I", 1, checksum=False),
        "magic 0": _patched(good, 16, ">b", 0, checksum=False),
        "magic 1": _patched(good, 16, ">b", 1, checksum=False),
        "magic 3": _patched(good, 16, ">b", 3, checksum=False),
        "magic -1": _patched(good, 16, ">b", -1, checksum=False),
        "length too short": _patched(good, 8, ">i", 10, checksum=False),
        "length negative": _patched(good, 8, ">i", -1, checksum=False),
        "length too long": _patched(good, 8, ">i", 10_000, checksum=False),
        "length one short": _patched(good, 8, ">i", len(good) - 13, checksum=False),
        "base offset 5": _patched(good, 0, ">q", 5),
        "base offset -1": _patched(good, 0, ">q", -1),
        "last offset delta 0": _patched(good, 23, ">i", 0),
        "last offset delta 5": _patched(good, 23, ">i", 5),
        "last offset delta -1": _patched(good, 23, ">i", -1),
        "count 0": _patched(good, 57, ">i", 0),
        "count 1": _patched(good, 57, ">i", 1),
        "count 9": _patched(good, 57, ">i", 9),
        "count -1": _patched(good, 57, ">i", -1),
        "count 2^31-1": _patched(good, 57, ">i", 2**31 - 1),
        "codec 5": _patched(good, 21, ">h", 5),
        "codec 7": _patched(good, 21, ">h", 7),
        "codec gzip that is none": _patched(good, 21, ">h", 1),
        "append time": _patched(good, 21, ">h", 8),
        "control": _patched(good, 21, ">h", 32),
        "transactional without a producer": _patched(good, 21, ">h", 16),
        "delete horizon": _patched(good, 21, ">h", 64),
        "unused attribute": _patched(good, 21, ">h", 1 << 7),
        "max timestamp before base": _patched(good, 35, ">q", 0),
        "no base timestamp": _patched(good, 27, ">q", -1),
        "two batches": good + batch(),
        "garbage after": good + b"garbage",
        "truncated": good[:-1],
        "header only": good[:61],
    }
    topic_id = talk.topic("wrong", len(cases))
    for number, (label, data) in enumerate(cases.items()):
        answer = talk.quiet(_PRODUCE, 12, **produce("wrong", topic_id, (number, data)))
        talk.note(_PRODUCE, label, answer)
    talk.ask(_PRODUCE, 3, **produce("wrong", topic_id, (0, cases["wrong checksum"])))
    talk.ask(_PRODUCE, 8, **produce("wrong", topic_id, (0, cases["magic 1"])))
    talk.ask(_PRODUCE, 3, **produce("wrong", topic_id, (0, cases["count 0"])))


@GROUP.exchange
def batches_whose_records_cannot_be_read(talk: Talk) -> None:
    good = batch(2)

    def claims(data: bytes, count: int) -> bytes:
        return _patched(_patched(data, 57, ">i", count), 23, ">i", count - 1)

    cases = {
        "header only with 2^31-1 records": claims(_patched(good[:61], 8, ">i", 49), 2**31 - 1),
        "a million records": claims(good, 1_000_000),
        "one record too many": claims(good, 3),
        "gzip that is none": _patched(good, 21, ">h", 1),
        "gzip of too few records": claims(batch(2, compression=1), 1_000_000),
    }
    for name, configs in (
        ("plain", {}),
        ("compacting", {"cleanup.policy": "compact"}),
        ("zstd", {"compression.type": "zstd"}),
    ):
        topic_id = talk.topic(f"unread-{name}", len(cases) + 1, configs=configs)
        for number, (label, data) in enumerate(cases.items()):
            parts = (number, data), (len(cases), good)
            answer = talk.quiet(_PRODUCE, 13, **produce("", topic_id, *parts))
            talk.note(_PRODUCE, f"{name}: {label}", answer)


@GROUP.exchange
def compression(talk: Talk) -> None:
    topic_id = talk.topic("codecs")
    for version in (3, 6, 7, 13):
        for codec in range(5):
            talk.ask(_PRODUCE, version, **produce("codecs", topic_id, (0, batch(3, compression=codec))))
    answer = _read(talk, "codecs")
    assert answer["responses"][0]["partitions"][0]["records"]


@GROUP.exchange
def compression_by_the_topic(talk: Talk) -> None:
    for name in ("uncompressed", "gzip", "producer"):
        topic_id = talk.topic(f"by-{name}", configs={"compression.type": name})
        for codec in (0, 1):
            talk.ask(_PRODUCE, 13, **produce("", topic_id, (0, batch(3, compression=codec))))
        answer = talk.quiet(ApiKey.FETCH, NAMED, **fetch(fetch_topic(f"by-{name}", NOWHERE, fetch_partition(0))))
        stored = answer["responses"][0]["partitions"][0]["records"]
        talk.note(
            ApiKey.FETCH,
            f"stored by {name}",
            [[one["attributes"], one["record_count"], one["records"]] for one in stored],
        )


@GROUP.exchange
def times(talk: Talk) -> None:
    topic_id = talk.topic("append-time", configs={"message.timestamp.type": "LogAppendTime"})
    talk.ask_each(_PRODUCE, (3, 13), **produce("append-time", topic_id, (0, batch(2))))
    _read(talk, "append-time")
    strict = talk.topic(
        "strict", configs={"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    )
    talk.ask_each(_PRODUCE, (3, 8, 13), **produce("strict", strict, (0, batch(2))))
    future = build_batch([NewRecord(b"k", b"v", LONG_AGO * 3)])
    talk.ask_each(_PRODUCE, (8, 13), **produce("strict", strict, (0, future)))
    talk.ask(_PRODUCE, 13, **produce("p", talk.topic("lenient"), (0, future)))
    talk.ask(_PRODUCE, 13, **produce("strict", strict, (0, build_batch([NewRecord(b"k", b"v")]))))


@GROUP.exchange
def sizes(talk: Talk) -> None:
    topic_id = talk.topic("small", configs={"max.message.bytes": "200"})
    for size in (1, 100, 131, 132, 133, 1000):
        talk.ask(_PRODUCE, 12, **produce("small", topic_id, (0, build_batch([NewRecord(None, b"x" * size, LONG_AGO)]))))
    segment = talk.topic("segment", configs={"segment.bytes": "1048576", "max.message.bytes": "5000000"})
    talk.ask(_PRODUCE, 13, **produce("", segment, (0, build_batch([NewRecord(None, b"x" * 1_100_000, LONG_AGO)]))))


@GROUP.exchange
def keys_for_compaction(talk: Talk) -> None:
    topic_id = talk.topic("compacted", configs={"cleanup.policy": "compact"})
    keyless = build_batch(
        [NewRecord(b"k", b"v", LONG_AGO), NewRecord(None, b"v", LONG_AGO), NewRecord(None, b"v", LONG_AGO)]
    )
    for version in (3, 7, 8, 13):
        talk.ask(_PRODUCE, version, **produce("compacted", topic_id, (0, keyless)))
    talk.ask(_PRODUCE, 13, **produce("compacted", topic_id, (0, build_batch([NewRecord(b"", None, LONG_AGO)]))))


@GROUP.exchange
def too_few_replicas(talk: Talk) -> None:
    topic_id = talk.topic("demanding", configs={"min.insync.replicas": "2"})
    for acks in (-1, 1):
        talk.ask(_PRODUCE, 13, **produce("demanding", topic_id, (0, batch()), acks=acks))


@GROUP.exchange
def a_transactional_id(talk: Talk) -> None:
    topic_id = talk.topic("transactional-id")
    for version in (3, 13):
        talk.ask(_PRODUCE, version, **produce("transactional-id", topic_id, (0, batch()), transactional_id="t"))


@GROUP.exchange
def internal_topics(talk: Talk) -> None:
    talk.group("to-make-the-offsets-topic")
    for version in (3, 12):
        talk.ask(_PRODUCE, version, **produce("__consumer_offsets", NOWHERE, (0, batch())))


def _init(talk: Talk, version: int = 5, producer_id: int = -1, epoch: int = -1, **fields: Any) -> Any:
    values = {
        "transactional_id": None,
        "transaction_timeout": 60_000,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }
    return talk.ask(ApiKey.INIT_PRODUCER_ID, version, **{**values, **fields})


@GROUP.exchange
def producer_ids(talk: Talk) -> None:
    none: dict[str, Any] = {
        "transactional_id": None,
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    talk.settle(lambda: talk.quiet(ApiKey.INIT_PRODUCER_ID, 5, **none))
    for version in range(6):
        _init(talk, version)
    for producer_id, epoch in ((_MADE_UP, -1), (-1, 3), (_MADE_UP, 3), (-2, -1), (_MADE_UP, 32767), (-1, -2)):
        for version in (3, 4, 5):
            _init(talk, version, producer_id, epoch)
    for timeout in (0, -1, 2**31 - 1):
        _init(talk, transaction_timeout=timeout)
    _init(talk, transactional_id="")


def _sequenced(talk: Talk, topic_id: UUID, *cases: tuple[int, int, int]) -> None:
    """Batches of one producer: (epoch, sequence, records)."""
    for epoch, sequence, count in cases:
        data = batch(count, producer_id=_MADE_UP, producer_epoch=epoch, base_sequence=sequence)
        talk.ask(_PRODUCE, 13, **produce("", topic_id, (0, data)))


@GROUP.exchange
def sequences_in_order_and_repeated(talk: Talk) -> None:
    topic_id = talk.topic("in-order")
    _sequenced(talk, topic_id, (0, 0, 1), (0, 1, 2), (0, 3, 1), (0, 4, 1), (0, 5, 1))
    _sequenced(talk, topic_id, (0, 5, 1), (0, 1, 2), (0, 0, 1), (0, 6, 1), (0, 0, 1), (0, 1, 2))
    _read(talk, "in-order")


@GROUP.exchange
def sequences_with_gaps(talk: Talk) -> None:
    topic_id = talk.topic("gaps")
    _sequenced(talk, topic_id, (0, 5, 1), (0, 6, 1), (0, 8, 1), (0, 5, 2), (0, 7, 1), (0, 0, 1), (0, 2**31 - 1, 1))


@GROUP.exchange
def sequences_that_wrap(talk: Talk) -> None:
    topic_id = talk.topic("wrapping")
    _sequenced(talk, topic_id, (0, 2**31 - 2, 1), (0, 2**31 - 1, 2), (0, 1, 1), (0, 2**31 - 1, 2))


@GROUP.exchange
def epochs_of_a_producer(talk: Talk) -> None:
    topic_id = talk.topic("epochs")
    _sequenced(talk, topic_id, (1, 0, 1), (0, 1, 1), (2, 1, 1), (2, 0, 1), (1, 1, 1), (2, 1, 1), (-1, 2, 1), (3, -1, 1))


@GROUP.exchange
def epochs_below_zero(talk: Talk) -> None:
    """A producer whose epoch is none: known and unknown ones, and with every kind of sequence."""
    topic_id = talk.topic("below-zero")
    _sequenced(talk, topic_id, (-1, 0, 1), (-1, 1, 1), (-1, 1, 1), (-1, -1, 1), (-2, 0, 1), (0, 5, 1), (-1, 6, 1))
    other = talk.topic("further-below-zero")
    _sequenced(talk, other, (-1, -1, 1), (-2, 3, 1), (-2, 4, 1), (-1, 7, 1), (-32768, 0, 1))
    _read(talk, "below-zero")


@GROUP.exchange
def several_batches_of_producers_at_once(talk: Talk) -> None:
    topic_id = talk.topic("mixed")
    first = batch(1, producer_id=_MADE_UP, producer_epoch=0, base_sequence=0)
    second = batch(1, producer_id=_MADE_UP, producer_epoch=0, base_sequence=1)
    other = batch(1, producer_id=_MADE_UP + 1, producer_epoch=0, base_sequence=0)
    for data in (first + second, first + other, other + batch(), first + first):
        talk.ask(_PRODUCE, 12, **produce("mixed", topic_id, (0, data)))


@GROUP.exchange
def transactional_batches(talk: Talk) -> None:
    topic_id = talk.topic("in-transaction")
    data = batch(1, attributes=16, producer_id=_MADE_UP, producer_epoch=0, base_sequence=0)
    talk.ask(_PRODUCE, 13, **produce("", topic_id, (0, data)))
    talk.ask(_PRODUCE, 11, **produce("in-transaction", topic_id, (0, data)))


@GROUP.exchange
def control_batches(talk: Talk) -> None:
    topic_id = talk.topic("controls")
    data = build_batch(
        [NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\0", LONG_AGO)],
        attributes=48,
        producer_id=_MADE_UP,
        producer_epoch=0,
        base_sequence=-1,
    )
    talk.ask(_PRODUCE, 13, **produce("", topic_id, (0, data)))


@GROUP.exchange
def producers_described(talk: Talk) -> None:
    topics: Sequence[Any] = (
        [],
        [("in-order", [0])],
        [("epochs", [0, 1, -1, 0])],
        [("nowhere", [0]), ("in-order", [])],
        [("", [0])],
        [("wrapping", [0]), ("gaps", [0]), ("wrapping", [0])],
        [("p", [0, 1, 2])],
        [("__consumer_offsets", [0])],
    )
    for wanted in topics:
        entries = [{"name": name, "partition_indexes": indexes} for name, indexes in wanted]
        talk.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=entries)
