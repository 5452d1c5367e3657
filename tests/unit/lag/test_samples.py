"""Records of the samples' topic as rows: of this version, of later ones, and broken ones."""

import json
from typing import Any

import pytest
from isthmus_lag.samples import ARROW_SCHEMA, SAMPLE_COLUMNS, SCHEMA, NoSample, RawRecord, read_sample, to_arrow
from isthmus_model.lag_samples import CopyKind, LagSample

SAMPLE = LagSample(
    kind=CopyKind.LINK,
    link="l",
    source_cluster="far",
    target_cluster="near",
    source_region="asia",
    target_region="europe",
    source_topic="orders",
    topic="copy-of-orders",
    partition=3,
    target_broker=-1,
    source_end=100,
    target_end=90,
    lag_ms=1500,
    at_ms=1_700_000_000_000,
)
ROW = (
    1,
    "link",
    "l",
    "far",
    "near",
    "asia",
    "europe",
    "orders",
    "copy-of-orders",
    3,
    -1,
    100,
    90,
    10,
    1500,
    1_700_000_000_000,
)


def changed(**told: Any) -> bytes:
    return json.dumps(json.loads(SAMPLE.value()) | told).encode()


def test_a_sample_is_a_row() -> None:
    assert read_sample(SAMPLE.value()) == ROW
    assert read_sample(changed(of_later="x")) == ROW


def test_a_later_version_is_read_as_far_as_possible() -> None:
    row = dict(
        zip(SAMPLE_COLUMNS, read_sample(changed(version=7, kind="tier", lag_ms="1s", partition=1 << 40)), strict=True)
    )
    assert row == dict(zip(SAMPLE_COLUMNS, ROW, strict=True)) | {
        "version": 7,
        "kind": "tier",
        "lag_ms": None,
        "partition": None,
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "no version"),
        (changed(version=True), "no version"),
        (changed(version=0), "no version"),
        (changed(lag_ms=None), "'lag_ms'"),
        (changed(lag_ms=1.5), "'lag_ms'"),
        (changed(at_ms=1 << 63), "'at_ms'"),
        (changed(topic="\ud800"), "'topic'"),
    ],
)
def test_what_is_no_sample_says_why(value: bytes | None, reason: str) -> None:
    with pytest.raises(NoSample, match=reason):
        read_sample(value)


def test_broken_records_are_rows_of_their_own() -> None:
    batch = to_arrow([RawRecord(2, 7, 1_700_000_000_123, SAMPLE.value()), RawRecord(2, 8, 0, b"?")])
    assert batch.schema == ARROW_SCHEMA
    assert batch.schema.names == SCHEMA.names
    good, bad = batch.to_pylist()
    assert tuple(good.values())[: len(ROW)] == ROW
    assert (good["_corrupt"], good["kafka_partition"], good["kafka_offset"]) == (None, 2, 7)
    assert good["kafka_timestamp"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert (bad["_corrupt"], bad["kafka_offset"], bad["topic"]) == ("the value is not JSON", 8, None)
