"""kio's request classes without their number and name types: a test says 1, not i32(1)."""

from typing import Any, Final

from isthmus_wire import requests as _wire
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest as _ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import (
    ConsumerGroupHeartbeatRequest as _ConsumerGroupHeartbeatRequest,
)
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions as _TopicPartitions
from kio.schema.consumer_protocol_assignment.v3 import data as _assignment
from kio.schema.consumer_protocol_subscription.v3 import data as _subscription
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest as _DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest as _DescribeGroupsRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest as _HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest as _JoinGroupRequest
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition as _OffsetCommitRequestPartition
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest as _OffsetDeleteRequest
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition as _OffsetDeleteRequestPartition
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestTopic as _OffsetDeleteRequestTopic
from kio.schema.sync_group.v5.request import SyncGroupRequest as _SyncGroupRequest

ConsumerGroupDescribeRequest: Final[Any] = _ConsumerGroupDescribeRequest
ConsumerGroupHeartbeatRequest: Final[Any] = _ConsumerGroupHeartbeatRequest
DeleteGroupsRequest: Final[Any] = _DeleteGroupsRequest
DescribeGroupsRequest: Final[Any] = _DescribeGroupsRequest
HeartbeatRequest: Final[Any] = _HeartbeatRequest
JoinGroupRequest: Final[Any] = _JoinGroupRequest
OffsetCommitRequest: Final[Any] = _wire.OffsetCommitRequest
OffsetCommitRequestPartition: Final[Any] = _OffsetCommitRequestPartition
OffsetDeleteRequest: Final[Any] = _OffsetDeleteRequest
OffsetDeleteRequestPartition: Final[Any] = _OffsetDeleteRequestPartition
OffsetDeleteRequestTopic: Final[Any] = _OffsetDeleteRequestTopic
OffsetFetchRequestGroup: Final[Any] = _wire.OffsetFetchRequestGroup
OffsetFetchRequestTopic: Final[Any] = _wire.OffsetFetchRequestTopic
SyncGroupRequest: Final[Any] = _SyncGroupRequest
TopicPartitions: Final[Any] = _TopicPartitions
assignment: Final[Any] = _assignment
subscription: Final[Any] = _subscription
