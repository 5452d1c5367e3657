"""DescribeReplicas: the lag of every replica of a partition."""

# No postponed annotations here: the codec reads the fields' types.
from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from isthmus_wire.extensions.message import Message, Nested

DESCRIBE_REPLICAS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasOfTopic(Nested):
    """A topic to describe."""

    name: str = field(metadata={"kafka_type": "string"})
    partitions: tuple[int, ...] = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeReplicasRequest(Message):
    """The partitions to describe, each at its leader."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = DESCRIBE_REPLICAS
    topics: tuple[ReplicasOfTopic, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedReplica(Nested):
    """One replica as its leader sees it; a time that is not known is -1, and so is an offset."""

    broker_id: int = field(metadata={"kafka_type": "int32"})
    is_leader: bool = field(metadata={"kafka_type": "bool"})
    is_observer: bool = field(metadata={"kafka_type": "bool"})
    is_isr_eligible: bool = field(metadata={"kafka_type": "bool"})
    is_in_isr: bool = field(metadata={"kafka_type": "bool"})
    is_caught_up: bool = field(metadata={"kafka_type": "bool"})
    last_caught_up_lag_ms: int = field(metadata={"kafka_type": "int64"})
    last_fetch_lag_ms: int = field(metadata={"kafka_type": "int64"})
    log_start_offset: int = field(metadata={"kafka_type": "int64"})
    log_end_offset: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartition(Nested):
    """A partition's replicas, or an error."""

    index: int = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    leader_epoch: int = field(metadata={"kafka_type": "int32"})
    replicas: tuple[DescribedReplica, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic(Nested):
    """A topic's partitions, in the order of the request."""

    name: str = field(metadata={"kafka_type": "string"})
    partitions: tuple[DescribedPartition, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeReplicasResponse(Message):
    """In the order of the request."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = DESCRIBE_REPLICAS
    topics: tuple[DescribedTopic, ...] = field(metadata={})
