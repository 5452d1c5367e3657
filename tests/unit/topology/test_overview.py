"""The status of a topology when leaders do not report: it says so, since their replicas are missing from the counts."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Self

import pytest
from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus
from isthmus_client.errors import ConnectionFailed
from isthmus_client.metadata import Partition, Topic, TopicPartition
from isthmus_topology import overview
from isthmus_topology.processes import Process, new_site

_TEXT = """
base_port = 21000
regions = ["west"]

[[clusters]]
name = "c"
nodes = [{ region = "west", brokers = 1, voters = 1 }]
"""
_STARTED = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


class _Client:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


async def _list_topics(_: object) -> dict[str, Topic]:
    led = {index: Partition(index, leader, 0) for index, leader in enumerate((1, 1, -1))}
    return {"orders": Topic("orders", None, is_internal=False, partitions=led)}


async def _replica_status(
    _: object, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionStatus | ConnectionFailed]:
    first, second = partitions
    replica = ReplicaStatus(
        1,
        is_leader=True,
        is_observer=False,
        is_isr_eligible=True,
        is_in_isr=True,
        is_caught_up=True,
        caught_up_lag_ms=0,
        fetch_lag_ms=0,
        log_start=0,
        log_end=5,
    )
    return {first: PartitionStatus(0, (replica,)), second: ConnectionFailed("no response")}


def test_leaders_that_do_not_report_are_a_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "Client", _Client)
    monkeypatch.setattr(overview, "list_topics", _list_topics)
    monkeypatch.setattr(overview, "replica_status", _replica_status)
    site = new_site(tmp_path, _TEXT)
    site.processes["west-1"] = Process(os.getpid(), _STARTED)
    observed = overview.observe(site)
    assert observed.troubles == [
        "cluster c: no leader for 1 of 3 partitions",
        "cluster c: no report from the leaders of 1 of 3 partitions; their replicas are not counted",
    ]
    assert [region["replicas"] for region in observed.regions] == [1]
