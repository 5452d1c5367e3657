"""Links: what a destination cluster knows of the clusters it copies from. Records of the destination's metadata log, nothing else.

Any broker of the destination takes these requests; what changes something is passed to the active controller. States and errors have
the names that Confluent's REST v3 gives them, so that existing tools read them.
"""

# No postponed annotations here: the codec reads the fields' types.
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from isthmus_wire.extensions.message import Message, Nested

CREATE_LINK: Final = 20_001
DESCRIBE_LINKS: Final = 20_002
ALTER_LINK: Final = 20_003
DELETE_LINK: Final = 20_004
REPORT_LINK: Final = 20_005


class LinkState(StrEnum):
    """What a link is doing."""

    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    UNAVAILABLE = "UNAVAILABLE"
    PAUSED = "PAUSED"
    UNKNOWN = "UNKNOWN"


class LinkError(StrEnum):
    """Why a link is not active."""

    NO_ERROR = "NO_ERROR"
    AUTHENTICATION_ERROR = "AUTHENTICATION_ERROR"
    UNRESOLVABLE_BOOTSTRAP_ERROR = "UNRESOLVABLE_BOOTSTRAP_ERROR"
    BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR = "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"
    TIMEOUT_ERROR = "TIMEOUT_ERROR"
    UNKNOWN = "UNKNOWN"


class LinkTask(StrEnum):
    """What a link does beside copying records."""

    CONSUMER_OFFSET_SYNC = "ConsumerOffsetSync"
    TOPIC_CONFIGS_SYNC = "TopicConfigsSync"
    AUTO_CREATE_MIRROR = "AutoCreateMirror"


class TaskState(StrEnum):
    """How such a task fares."""

    ACTIVE = "ACTIVE"
    IN_ERROR = "IN_ERROR"
    NOT_CONFIGURED = "NOT_CONFIGURED"
    LINK_FAILED = "LINK_FAILED"
    LINK_UNAVAILABLE = "LINK_UNAVAILABLE"
    LINK_PAUSED = "LINK_PAUSED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig(Nested):
    """A setting of a link; a null value takes it back to its default."""

    name: str = field(metadata={"kafka_type": "string"})
    value: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLinkRequest(Message):
    """Create a link; the controller generates its id. Validation connects to the source; a cluster cannot be linked to itself."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = CREATE_LINK
    name: str = field(metadata={"kafka_type": "string"})
    source_cluster_id: str | None = field(metadata={"kafka_type": "string"})
    configs: tuple[LinkConfig, ...] = field(metadata={})
    validate_link: bool = field(metadata={"kafka_type": "bool"})
    validate_only: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLinkResponse(Message):
    """The link, or why there is none."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = CREATE_LINK
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    link_id: UUID | None = field(metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLinksRequest(Message):
    """Which links; null means all."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = DESCRIBE_LINKS
    names: tuple[str, ...] | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTask(Nested):
    """How a task of a link fares: a `LinkTask`, a `TaskState`, and the name of an error of the reference."""

    name: str = field(metadata={"kafka_type": "string"})
    state: str = field(metadata={"kafka_type": "string"})
    error: str = field(metadata={"kafka_type": "string"})
    error_message: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig(Nested):
    """A setting of a link as it is in force."""

    name: str = field(metadata={"kafka_type": "string"})
    value: str | None = field(metadata={"kafka_type": "string"})
    is_default: bool = field(metadata={"kafka_type": "bool"})
    is_sensitive: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedLink(Nested):
    """A link or an error: a `LinkState`, a `LinkError`, and the state that its workers last reported."""

    name: str = field(metadata={"kafka_type": "string"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    link_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    source_cluster_id: str = field(metadata={"kafka_type": "string"})
    state: str = field(metadata={"kafka_type": "string"})
    link_error: str = field(metadata={"kafka_type": "string"})
    link_error_message: str = field(metadata={"kafka_type": "string"})
    configs: tuple[DescribedConfig, ...] = field(metadata={})
    tasks: tuple[DescribedTask, ...] = field(metadata={})
    mirror_topics: tuple[str, ...] = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLinksResponse(Message):
    """In the order of the request, or by name."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = DESCRIBE_LINKS
    links: tuple[DescribedLink, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterLinkRequest(Message):
    """Settings to change; what is not named stays."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = ALTER_LINK
    name: str = field(metadata={"kafka_type": "string"})
    changes: tuple[LinkConfig, ...] = field(metadata={})
    validate_only: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterLinkResponse(Message):
    """Done, or why not."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = ALTER_LINK
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLinkRequest(Message):
    """Refused while a mirror topic of the link is not stopped; forced, those are stopped as by a failover."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = DELETE_LINK
    name: str = field(metadata={"kafka_type": "string"})
    force: bool = field(metadata={"kafka_type": "bool"})
    validate_only: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLinkResponse(Message):
    """Done, or why not."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = DELETE_LINK
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLinkRequest(Message):
    """What a linker's worker has found of a link; written to the log when it differs from what stands there."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = REPORT_LINK
    link_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    state: str = field(metadata={"kafka_type": "string"})
    link_error: str = field(metadata={"kafka_type": "string"})
    link_error_message: str = field(metadata={"kafka_type": "string"})
    tasks: tuple[DescribedTask, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLinkResponse(Message):
    """Noted, or why not."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = REPORT_LINK
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
