"""The schema of lag samples, which readers of many years will parse."""

import json

import pytest
from isthmus_model.lag_samples import CopyKind, LagSample

SAMPLE = LagSample(
    kind=CopyKind.LINK,
    link="to-east",
    source_cluster="west-id",
    target_cluster="east-id",
    source_region="west",
    target_region="east",
    source_topic="orders",
    topic="west.orders",
    partition=3,
    target_broker=-1,
    source_end=120,
    target_end=100,
    lag_ms=1500,
    at_ms=1_700_000_000_000,
)


def test_the_value_is_json_with_a_version_and_every_field() -> None:
    assert json.loads(SAMPLE.value()) == {
        "version": 1,
        "kind": "link",
        "link": "to-east",
        "source_cluster": "west-id",
        "target_cluster": "east-id",
        "source_region": "west",
        "target_region": "east",
        "source_topic": "orders",
        "topic": "west.orders",
        "partition": 3,
        "target_broker": -1,
        "source_end": 120,
        "target_end": 100,
        "lag_ms": 1500,
        "at_ms": 1_700_000_000_000,
        "lag_records": 20,
    }


def test_samples_of_one_copy_share_a_key_and_those_of_others_do_not() -> None:
    assert SAMPLE.key() == b"link/to-east/west.orders/3/-1"


def test_samples_round_trip() -> None:
    assert LagSample.parse(SAMPLE.value()) == SAMPLE


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"no json",
        b"[]",
        b"{}",
        b'{"version": 2}',
        SAMPLE.value().replace(b'"version":1', b'"version":2'),
        SAMPLE.value().replace(b'"link"', b'"chain"', 1),
        SAMPLE.value().replace(b'"partition":3', b'"partition":"3"'),
    ],
)
def test_another_record_is_not_a_sample(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="not a sample of lag"):
        LagSample.parse(value)
