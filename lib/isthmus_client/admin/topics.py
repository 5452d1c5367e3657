"""Topics: list, describe, create, add partitions, delete, and delete records."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, Refused, check
from isthmus_client.limits import REQUEST_SECONDS
from isthmus_client.metadata import Topic, TopicPartition, by_topic
from isthmus_client.requests_by_broker import by_leader

_TIMEOUT = millis(int(REQUEST_SECONDS * 1000))


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default, and `assignments` (replicas by partition) replaces both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


async def list_topics(client: Client) -> dict[str, Topic]:
    """Every topic by name, in order."""
    view = await client.retry("list the topics", lambda: client.refresh(None))
    return dict(sorted(view.topics.items()))


async def describe(client: Client, names: Collection[str]) -> dict[str, Topic]:
    """Describe these topics with fresh metadata; raises Refused for the first that does not exist."""

    async def attempt() -> dict[str, Topic]:
        view = await client.refresh(names)
        for name in names:
            if name not in view.topics:
                raise Refused(view.refused.get(name, ErrorCode.unknown_topic_or_partition), f"topic {name}")
        return {name: view.topics[name] for name in names}

    return await client.retry("describe topics", attempt)


async def create(
    client: Client, topics: Collection[NewTopic], *, validate_only: bool = False
) -> dict[str, Refused | None]:
    """Create topics. Returns None or the error of each."""
    request = entity(
        CreateTopicsRequest,
        topics=tuple(
            entity(
                CreatableTopic,
                name=topic.name,
                num_partitions=-1 if topic.assignments else topic.partitions,
                replication_factor=-1 if topic.assignments else topic.replication_factor,
                assignments=tuple(
                    entity(CreatableReplicaAssignment, partition_index=index, broker_ids=tuple(brokers))
                    for index, brokers in topic.assignments.items()
                ),
                configs=tuple(entity(CreatableTopicConfig, name=k, value=v) for k, v in topic.configs.items()),
            )
            for topic in topics
        ),
        timeout=_TIMEOUT,
        validate_only=validate_only,
    )
    response = await client.send_to_controller(
        ApiKey.CREATE_TOPICS, request, lambda r: [t.error_code for t in r.topics]
    )
    return _in_order((topic.name for topic in topics), response.topics)


async def delete(client: Client, names: Collection[str]) -> dict[str, Refused | None]:
    """Delete topics. Returns None or the error of each."""
    from isthmus_wire.requests import DeleteTopicsRequest

    request = DeleteTopicsRequest(
        topics=tuple(entity(DeleteTopicState, name=name, topic_id=None) for name in names),
        topic_names=tuple(names),
        timeout=_TIMEOUT,
    )
    response = await client.send_to_controller(
        ApiKey.DELETE_TOPICS, request, lambda r: [t.error_code for t in r.responses]
    )
    return _in_order(names, response.responses)


async def create_partitions(
    client: Client,
    counts: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    *,
    validate_only: bool = False,
) -> dict[str, Refused | None]:
    """Increase topics to these partition counts; `assignments` places the new partitions. Returns None or the error of each."""
    placed = assignments or {}
    request = entity(
        CreatePartitionsRequest,
        topics=tuple(
            entity(
                CreatePartitionsTopic,
                name=name,
                count=count,
                assignments=tuple(entity(CreatePartitionsAssignment, broker_ids=tuple(b)) for b in placed[name])
                if name in placed
                else None,
            )
            for name, count in counts.items()
        ),
        timeout=_TIMEOUT,
        validate_only=validate_only,
    )
    response = await client.send_to_controller(
        ApiKey.CREATE_PARTITIONS, request, lambda r: [t.error_code for t in r.results]
    )
    return _in_order(counts, response.results)


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | ClientError]:
    """Delete the records before these offsets (-1: the high watermark). Returns each partition's new log start offset or its error."""

    async def send(connection: Connection, share: dict[TopicPartition, int]) -> dict[TopicPartition, int | ClientError]:
        request = entity(
            DeleteRecordsRequest,
            topics=tuple(
                entity(
                    DeleteRecordsTopic,
                    name=topic,
                    partitions=tuple(
                        entity(DeleteRecordsPartition, partition_index=i, offset=share[TopicPartition(topic, i)])
                        for i in indexes
                    ),
                )
                for topic, indexes in by_topic(share).items()
            ),
            timeout=_TIMEOUT,
        )
        response = await connection.request(ApiKey.DELETE_RECORDS, request)
        return {
            (tp := TopicPartition(t.name, p.partition_index)): _refusal(p.error_code, f"partition {tp}")
            or p.low_watermark
            for t in response.topics
            for p in t.partitions
        }

    return await by_leader(client, "delete records", before, send)


def _in_order(names: Iterable[str], results: Iterable[Any]) -> dict[str, Refused | None]:
    """Results by name in the order of the request; brokers respond in any order."""
    by_name = {
        result.name: _refusal(result.error_code, f"topic {result.name}", result.error_message) for result in results
    }
    return {name: by_name[name] for name in dict.fromkeys(names)}


def _refusal(code: ErrorCode, subject: str, message: str | None = None) -> Refused | None:
    try:
        check(code, subject, message)
    except Refused as refused:
        return refused
    return None
