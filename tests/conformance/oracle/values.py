"""Request values that many exchanges share."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from isthmus_wire.apis import ApiKey
from isthmus_wire.records import NewRecord, build_batch

from tests.conformance.oracle.talk import MAIN, Talk

NOWHERE: Final = UUID(int=404)
"""A topic id that no topic has."""
LONG_AGO: Final = 1_600_000_000_000
NAMED: Final = 12
"""The last version of Produce and of Fetch that names topics."""


def batch(count: int = 1, **fields: Any) -> bytes:
    """A batch of small records, the first at LONG_AGO, one a second."""
    records = [NewRecord(b"k%d" % i, b"value %d" % i, LONG_AGO + 1000 * i, (("h", b"x"),)) for i in range(count)]
    return build_batch(records, **fields)


def produce(
    name: str, topic_id: UUID, *partitions: tuple[int, bytes | None], acks: int = -1, **fields: Any
) -> dict[str, Any]:
    """Values of a Produce request for one topic."""
    data = [{"index": index, "records": records} for index, records in partitions]
    topic = {"name": name, "topic_id": topic_id, "partition_data": data}
    return {"transactional_id": None, "acks": acks, "timeout": 10_000, "topic_data": [topic], **fields}


def fetch_topic(name: str, topic_id: UUID, *partitions: Mapping[str, Any]) -> dict[str, Any]:
    """One topic of a Fetch request."""
    return {"topic": name, "topic_id": topic_id, "partitions": list(partitions)}


def fetch_partition(index: int, offset: int = 0, max_bytes: int = 1_000_000, **fields: Any) -> dict[str, Any]:
    """One partition of a Fetch request."""
    return {
        "partition": index,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": max_bytes,
        **fields,
    }


def fetch(*topics: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Values of a Fetch request; it does not wait."""
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 10_000_000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": list(topics),
        "forgotten_topics_data": (),
        "rack_id": "",
        **fields,
    }


def creatable(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """One topic of a CreateTopics request; `configs` as pairs, `assignments` as lists of brokers by partition."""
    configs: Sequence[tuple[str, str | None]] = fields.pop("configs", ())
    assignments: Sequence[tuple[int, Sequence[int]]] = fields.pop("assignments", ())
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments],
        "configs": [{"name": key, "value": value} for key, value in configs],
    }


def create(*topics: Mapping[str, Any], validate_only: bool = False) -> dict[str, Any]:
    """Values of a CreateTopics request."""
    return {"topics": list(topics), "timeout": 10_000, "validate_only": validate_only}


def store(talk: Talk, name: str, partition: int, records: bytes, on: str = MAIN) -> Any:
    """Write without recording the step."""
    answer = talk.quiet(ApiKey.PRODUCE, NAMED, on, **produce(name, NOWHERE, (partition, records)))
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none", answer
    return answer
