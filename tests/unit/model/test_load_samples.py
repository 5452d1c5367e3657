"""Samples of load: they round-trip, in records of bounded size."""

import json

import pytest
from isthmus_model.load_samples import PARTITIONS_PER_RECORD, LoadSample, ReplicaLoad, load_samples


def replica(number: int) -> ReplicaLoad:
    return ReplicaLoad(
        topic="t", partition=number, is_leader=True, size=10, bytes_in=1.5, bytes_out=2.5, replicated_out=3.5
    )


def test_many_replicas_are_split_into_parts_of_one_report() -> None:
    replicas = [replica(number) for number in range(PARTITIONS_PER_RECORD + 1)]
    samples = [LoadSample.parse(sample.value()) for sample in load_samples(7, "west/a", 1000, replicas)]
    assert [(s.broker, s.rack, s.at_ms, s.part, s.parts) for s in samples] == [
        (7, "west/a", 1000, 0, 2),
        (7, "west/a", 1000, 1, 2),
    ]
    assert [each for sample in samples for each in sample.replicas] == replicas


def test_a_broker_without_replicas_reports_that() -> None:
    assert [(s.part, s.parts, s.replicas) for s in load_samples(1, "", 5, [])] == [(0, 1, ())]


def test_fields_of_later_versions_are_ignored_and_malformed_samples_refused() -> None:
    told = json.loads(next(load_samples(1, "", 5, [replica(0)])).value())
    told["replicas"][0]["temperature"] = 40
    assert LoadSample.parse(json.dumps({**told, "mood": "fine"}).encode()).replicas == (replica(0),)
    with pytest.raises(ValueError, match="not a sample of load"):
        LoadSample.parse(b'{"version":1}')
