"""Messages whose fields moved between versions, as the union of all versions.

Most messages only grow, so the highest version's class holds any older one. The few here lost fields (a name became an id,
one group became a list), and a handler must see which of both a client sent. Each class has every field; the codec fills what the
version on the wire carries.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.metadata.v13.request import MetadataRequestTopic
from kio.schema.metadata.v13.response import MetadataResponseBroker, MetadataResponseTopic
from kio.schema.offset_commit.v4.request import OffsetCommitRequest as OffsetCommitWithRetention
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.static.primitive import i32, i32Timedelta, i64Timedelta

from isthmus_wire.apis import ApiKey

_NO_RETENTION: Final[Any] = OffsetCommitWithRetention.__dataclass_fields__["retention_time"].default
"""Up to version 4 a client could say how long an offset is kept; -1 ms leaves that to the broker."""


NOT_ASKED: Final = -(1 << 31)
"""The authorized operations of a resource if the request did not include them."""


def _typed(kafka_type: str) -> dict[str, str]:
    return {"kafka_type": kafka_type}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Up to version 3 one `key`, from 4 on `coordinator_keys`."""

    __flexible__: ClassVar[bool] = True
    key: str = field(metadata=_typed("string"), default="")
    key_type: int = field(metadata=_typed("int8"), default=0)
    coordinator_keys: tuple[str, ...] = field(metadata=_typed("string"), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """Up to version 3 the one transaction of a client, from 4 on `transactions`, which brokers add or verify."""

    __flexible__: ClassVar[bool] = True
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()
    v3_and_below_transactional_id: str = field(metadata=_typed("string"), default="")
    v3_and_below_producer_id: int = field(metadata=_typed("int64"), default=-1)
    v3_and_below_producer_epoch: int = field(metadata=_typed("int16"), default=-1)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """Up to version 3 the results of one transaction, from 4 on `error_code` and `results_by_transaction`."""

    __flexible__: ClassVar[bool] = True
    throttle_time: i32Timedelta = field(metadata=_typed("timedelta_i32"))
    error_code: ErrorCode = field(metadata=_typed("error_code"), default=ErrorCode.none)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Up to version 5 `topic_names`, then `topics`, each a name or an id."""

    __api_key__: ClassVar[int] = ApiKey.DELETE_TOPICS
    __flexible__: ClassVar[bool] = True
    topics: tuple[DeleteTopicState, ...] = ()
    topic_names: tuple[str, ...] = field(metadata=_typed("string"), default=())
    timeout: i32Timedelta = field(metadata=_typed("timedelta_i32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Versions 8 to 10 can request the cluster's authorized operations, which moved to DescribeCluster (KIP-700)."""

    __flexible__: ClassVar[bool] = True
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool = field(metadata=_typed("bool"), default=True)
    include_cluster_authorized_operations: bool = field(metadata=_typed("bool"), default=False)
    include_topic_authorized_operations: bool = field(metadata=_typed("bool"), default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """Versions 8 to 10 carry `cluster_authorized_operations`, version 13 `error_code`."""

    __flexible__: ClassVar[bool] = True
    throttle_time: i32Timedelta = field(metadata=_typed("timedelta_i32"))
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None = field(metadata=_typed("string"), default=None)
    controller_id: int = field(metadata=_typed("int32"), default=-1)
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: int = field(metadata=_typed("int32"), default=NOT_ASKED)
    error_code: ErrorCode = field(metadata=_typed("error_code"), default=ErrorCode.none)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    """Up to version 2 one `member_id`, then `members`."""

    __flexible__: ClassVar[bool] = True
    group_id: str = field(metadata=_typed("string"))
    member_id: str = field(metadata=_typed("string"), default="")
    members: tuple[MemberIdentity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """Up to version 9 the topic's `name`, from 10 on its id."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_typed("string"), default="")
    topic_id: UUID | None = field(metadata=_typed("uuid"), default=None)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Offsets of one group."""

    __flexible__: ClassVar[bool] = True
    group_id: str = field(metadata=_typed("string"))
    generation_id_or_member_epoch: i32 = field(metadata=_typed("int32"), default=i32(-1))
    member_id: str = field(metadata=_typed("string"), default="")
    group_instance_id: str | None = field(metadata=_typed("string"), default=None)
    retention_time: i64Timedelta = field(metadata=_typed("timedelta_i64"), default=_NO_RETENTION)
    topics: tuple[OffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """Results by name or id, as in the request."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_typed("string"), default="")
    topic_id: UUID | None = field(metadata=_typed("uuid"), default=None)
    partitions: tuple[OffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """The response to `OffsetCommitRequest`."""

    __flexible__: ClassVar[bool] = True
    throttle_time: i32Timedelta = field(metadata=_typed("timedelta_i32"))
    topics: tuple[OffsetCommitResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    """Up to version 9 the topic's `name`, from 10 on its id."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_typed("string"), default="")
    topic_id: UUID | None = field(metadata=_typed("uuid"), default=None)
    partition_indexes: tuple[i32, ...] = field(metadata=_typed("int32"), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    """One group's part of the request; `topics` None means every committed offset."""

    __flexible__: ClassVar[bool] = True
    group_id: str = field(metadata=_typed("string"))
    member_id: str | None = field(metadata=_typed("string"), default=None)
    member_epoch: i32 = field(metadata=_typed("int32"), default=i32(-1))
    topics: tuple[OffsetFetchRequestTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Up to version 7 one group (`group_id`, `topics`), then `groups`."""

    __flexible__: ClassVar[bool] = True
    group_id: str = field(metadata=_typed("string"), default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    require_stable: bool = field(metadata=_typed("bool"), default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    """One committed offset, or -1."""

    __flexible__: ClassVar[bool] = True
    partition_index: i32 = field(metadata=_typed("int32"))
    committed_offset: int = field(metadata=_typed("int64"))
    committed_leader_epoch: i32 = field(metadata=_typed("int32"), default=i32(-1))
    metadata: str | None = field(metadata=_typed("string"))
    error_code: ErrorCode = field(metadata=_typed("error_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    """Results by name or id, as in the request."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_typed("string"), default="")
    topic_id: UUID | None = field(metadata=_typed("uuid"), default=None)
    partitions: tuple[OffsetFetchResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """One group's part of the response."""

    __flexible__: ClassVar[bool] = True
    group_id: str = field(metadata=_typed("string"))
    topics: tuple[OffsetFetchResponseTopic, ...]
    error_code: ErrorCode = field(metadata=_typed("error_code"), default=ErrorCode.none)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """Up to version 7 `topics` and `error_code` of the one group, then `groups`."""

    __flexible__: ClassVar[bool] = True
    throttle_time: i32Timedelta = field(metadata=_typed("timedelta_i32"))
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = field(metadata=_typed("error_code"), default=ErrorCode.none)
    groups: tuple[OffsetFetchResponseGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """Where the coordinator of one key is."""

    __flexible__: ClassVar[bool] = True
    key: str = field(metadata=_typed("string"), default="")
    node_id: int = field(metadata=_typed("int32"))
    host: str = field(metadata=_typed("string"))
    port: int = field(metadata=_typed("int32"))
    error_code: ErrorCode = field(metadata=_typed("error_code"))
    error_message: str | None = field(metadata=_typed("string"), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """Up to version 3 one coordinator's fields, then `coordinators`."""

    __flexible__: ClassVar[bool] = True
    throttle_time: i32Timedelta = field(metadata=_typed("timedelta_i32"))
    error_code: ErrorCode = field(metadata=_typed("error_code"), default=ErrorCode.none)
    error_message: str | None = field(metadata=_typed("string"), default=None)
    node_id: int = field(metadata=_typed("int32"), default=-1)
    host: str = field(metadata=_typed("string"), default="")
    port: int = field(metadata=_typed("int32"), default=-1)
    coordinators: tuple[Coordinator, ...] = ()
