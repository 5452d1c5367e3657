"""Lag of consumer groups: committed offsets and log end offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from isthmus_client.admin import group_offsets
from isthmus_client.admin.groups import Member
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results
from pydantic import Field

from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.groups import GroupPath, existing_group
from isthmus_api.routes.v3.shapes import CLUSTER, INT32_MAX, KafkaList, Related, Resource, listed, metadata, related

routes = Routes("Consumer group lag", CLUSTER)


class LagPath(GroupPath):
    """One partition that a group has committed an offset of."""

    topic_name: str = Field(min_length=1)
    partition_id: int = Field(ge=0, le=INT32_MAX)


class LagData(Resource):
    """A partition's lag; without a consumer that reads it now the consumer's fields are empty."""

    kind: Literal["KafkaConsumerLag"] = "KafkaConsumerLag"
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


class LagDataList(KafkaList[LagData]):
    """The lags of a group."""

    kind: Literal["KafkaConsumerLagList"] = "KafkaConsumerLagList"


class LagSummaryData(Resource):
    """The worst and the sum of a group's lags."""

    kind: Literal["KafkaConsumerGroupLagSummary"] = "KafkaConsumerGroupLagSummary"
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Related
    max_lag_partition: Related


@dataclass(frozen=True, slots=True)
class _Lag:
    partition: TopicPartition
    committed: int
    end: int
    member: Member | None

    @property
    def lag(self) -> int:
        """Offsets still to be read; 0 when the log was truncated below the committed offset."""
        return max(self.end - self.committed, 0)


@routes.get("/consumer-groups/{consumer_group_id}/lags")
async def list_kafka_consumer_lags(call: Call, path: GroupPath) -> LagDataList:
    """List the lags of a group."""
    return LagDataList(metadata=listed(call), data=[_data(call, path, lag) for lag in await _lags(call, path)])


@routes.get("/consumer-groups/{consumer_group_id}/lags/{topic_name}/partitions/{partition_id}")
async def get_kafka_consumer_lag(call: Call, path: LagPath) -> LagData:
    """Get the lag of a group in one partition."""
    partition = TopicPartition(path.topic_name, path.partition_id)
    for lag in await _lags(call, path):
        if lag.partition == partition:
            return _data(call, path, lag)
    raise Problem(404, f"Group {path.consumer_group_id} has no offset of partition {partition}.")


@routes.get("/consumer-groups/{consumer_group_id}/lag-summary")
async def get_kafka_consumer_group_lag_summary(call: Call, path: GroupPath) -> LagSummaryData:
    """Get the worst and the sum of a group's lags."""
    lags = await _lags(call, path)
    if not lags:
        raise Problem(404, f"Group {path.consumer_group_id} has committed no offsets.")
    worst = max(lags, key=lambda lag: lag.lag)
    cluster, group, (topic, index) = path.cluster_id, path.consumer_group_id, worst.partition
    here = ("clusters", cluster, "consumer-groups", group)
    member_id = worst.member.member_id if worst.member is not None else ""
    return LagSummaryData(
        metadata=metadata(
            call, (*here, "lag-summary"), ("kafka", cluster, "consumer-group", group, "lag-summary", group)
        ),
        cluster_id=cluster,
        consumer_group_id=group,
        max_lag_consumer_id=member_id,
        max_lag_instance_id=worst.member.instance_id if worst.member is not None else None,
        max_lag_client_id=worst.member.client_id if worst.member is not None else "",
        max_lag_topic_name=topic,
        max_lag_partition_id=index,
        max_lag=worst.lag,
        total_lag=sum(lag.lag for lag in lags),
        max_lag_consumer=related(call, *here, "consumers", *([member_id] if member_id else [])),
        max_lag_partition=related(call, "clusters", cluster, "topics", topic, "partitions", index),
    )


async def _lags(call: Call, path: GroupPath) -> list[_Lag]:
    async with call.parts.clusters.use(path.cluster_id) as client:
        group = await existing_group(client, path.consumer_group_id)
        readers = {partition: member for member in group.members for partition in member.partitions}
        return await _of_group(client, group.group_id, readers)


async def _of_group(client: Client, group_id: str, readers: dict[TopicPartition, Member]) -> list[_Lag]:
    committed = await group_offsets.fetch(client, group_id)
    ends = results(await list_offsets(client, dict.fromkeys(committed, At.LATEST)))
    return [
        _Lag(partition, offset.offset, ends[partition].offset, readers.get(partition))
        for partition, offset in sorted(committed.items())
    ]


def _data(call: Call, path: GroupPath, lag: _Lag) -> LagData:
    cluster, group, (topic, index) = path.cluster_id, path.consumer_group_id, lag.partition
    here = ("clusters", cluster, "consumer-groups", group, "lags", topic, "partitions", index)
    return LagData(
        metadata=metadata(call, here, ("kafka", cluster, "consumer-group", group, "lag", f"{topic}-{index}")),
        cluster_id=cluster,
        consumer_group_id=group,
        topic_name=topic,
        partition_id=index,
        current_offset=lag.committed,
        log_end_offset=lag.end,
        lag=lag.lag,
        consumer_id=lag.member.member_id if lag.member is not None else "",
        instance_id=lag.member.instance_id if lag.member is not None else None,
        client_id=lag.member.client_id if lag.member is not None else "",
    )
