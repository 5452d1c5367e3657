"""Mirror topics of a destination cluster, and their changes of state. Only Isthmus clusters have them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from isthmus_client.admin import mirrors as mirror_admin
from isthmus_client.admin.mirrors import refusal
from isthmus_client.client import Client
from isthmus_client.errors import Refused
from isthmus_model.lag import number_or_none, partition_lag
from isthmus_wire.extensions.mirrors import (
    AlteredMirror,
    DescribedMirror,
    MirrorAction,
    MirrorState,
    PartitionLag,
    PartitionProgress,
)
from pydantic import AfterValidator, BaseModel, Field, model_validator

from isthmus_api.clusters.mirror_progress import mirror_progress
from isthmus_api.models import RequestBody, Shape
from isthmus_api.problems import Problem, problem_of
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.links import LinkPath, ValidateQuery, existing_link
from isthmus_api.routes.v3.shapes import (
    CLUSTER,
    INT16_MAX,
    ClusterPath,
    KafkaList,
    NewConfig,
    Resource,
    listed,
    metadata,
)

routes = Routes("Mirror topics", CLUSTER)
_PATTERN_MAX = 1000
_TOPICS_MAX = 10_000


class MirrorPath(LinkPath):
    """One mirror topic of a link."""

    mirror_topic_name: str = Field(min_length=1)


class ListMirrorsQuery(BaseModel):
    """Which mirror topics."""

    mirror_status: MirrorState | Literal[""] = ""


class DescribeMirrorQuery(BaseModel):
    """Whether to include why a mirror topic has failed."""

    include_state_transition_errors: bool = False


class CreateMirrorTopicRequest(RequestBody):
    """A new mirror topic of a topic of the link's source. Its name is the source topic's with the link's prefix."""

    source_topic_name: str = Field(min_length=1, max_length=249)
    mirror_topic_name: str | None = Field(None, min_length=1, max_length=249)
    replication_factor: int | None = Field(None, ge=1, le=INT16_MAX)
    configs: list[NewConfig] = Field(default_factory=list, max_length=1000)


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


class AlterMirrorsRequest(RequestBody):
    """Which mirror topics: by name, or all that match a regular expression."""

    mirror_topic_names: list[str] = Field(default_factory=list, max_length=_TOPICS_MAX)
    mirror_topic_name_pattern: Annotated[str, AfterValidator(_compiles)] = Field("", max_length=_PATTERN_MAX)

    @model_validator(mode="after")
    def _names_or_a_pattern(self) -> AlterMirrorsRequest:
        if bool(self.mirror_topic_names) == bool(self.mirror_topic_name_pattern):
            raise ValueError("give either mirror_topic_names or mirror_topic_name_pattern")
        return self


class MirrorLag(Shape):
    """The lag of a partition behind its source's high watermark; null when it is unknown.

    `source_age_ms`: how long ago the source's position was last reported; older than 5 s, the lag is as of then.
    """

    partition: int
    lag: int | None
    last_source_fetch_offset: int | None
    source_age_ms: int | None = None


class StateTransitionError(Shape):
    """Why a mirror topic has failed."""

    error_code: str
    error_message: str


class MirrorData(Resource):
    """A mirror topic."""

    kind: Literal["KafkaMirrorData"] = "KafkaMirrorData"
    link_name: str
    mirror_topic_name: str
    source_topic_name: str
    num_partitions: int
    mirror_lags: list[MirrorLag]
    mirror_status: str
    mirror_topic_error: str
    state_time_ms: int
    mirror_state_transition_errors: list[StateTransitionError] | None


class MirrorDataList(KafkaList[MirrorData]):
    """Mirror topics."""

    kind: Literal["KafkaMirrorDataList"] = "KafkaMirrorDataList"


class AlteredMirrorData(Resource):
    """The outcome for one mirror topic; successful without an error."""

    kind: Literal["KafkaAlterMirrorStatusResponseData"] = "KafkaAlterMirrorStatusResponseData"
    mirror_topic_name: str
    error_code: int | None
    error_message: str | None
    mirror_lags: list[MirrorLag]


class AlteredMirrorDataList(KafkaList[AlteredMirrorData]):
    """The outcome for each mirror topic."""

    kind: Literal["KafkaAlterMirrorStatusResponseDataList"] = "KafkaAlterMirrorStatusResponseDataList"


@routes.get("/links/-/mirrors")
async def list_kafka_mirror_topics(call: Call, path: ClusterPath, query: ListMirrorsQuery) -> MirrorDataList:
    """List the mirror topics of a cluster."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        return await _list(call, path.cluster_id, client, None, query)


@routes.get("/links/{link_name}/mirrors")
async def list_kafka_mirror_topics_under_link(call: Call, path: LinkPath, query: ListMirrorsQuery) -> MirrorDataList:
    """List the mirror topics of a link."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await existing_link(client, path.link_name)
        return await _list(call, path.cluster_id, client, path.link_name, query)


@routes.post("/links/{link_name}/mirrors")
async def create_kafka_mirror_topic(call: Call, path: LinkPath, body: CreateMirrorTopicRequest) -> None:
    """Create a mirror of a topic of the link's source."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await existing_link(client, path.link_name)
        await mirror_admin.create_mirror(
            client,
            path.link_name,
            body.source_topic_name,
            mirror_topic=body.mirror_topic_name,
            replication_factor=body.replication_factor or -1,
            configs={config.name: config.value or "" for config in body.configs},
        )


@routes.get("/links/{link_name}/mirrors/{mirror_topic_name}")
async def read_kafka_mirror_topic(call: Call, path: MirrorPath, query: DescribeMirrorQuery) -> MirrorData:
    """Get a mirror topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        link = None if path.link_name == "-" else path.link_name
        if link is not None:
            await existing_link(client, link)
        try:
            (mirror,) = await mirror_admin.describe_mirrors(client, link=link, topics=[path.mirror_topic_name])
        except Refused as refused:
            raise Problem(404, f"Mirror topic {path.mirror_topic_name} cannot be found.") from refused
        progress = await mirror_progress(client, [mirror])
    return _mirror(call, path.cluster_id, mirror, progress[mirror.topic], query.include_state_transition_errors)


@routes.post("/links/{link_name}/mirrors:pause")
async def update_kafka_mirror_topics_pause(
    call: Call, path: LinkPath, query: ValidateQuery, body: AlterMirrorsRequest
) -> AlteredMirrorDataList:
    """Pause mirror topics; they stay read-only."""
    return await _alter(call, path, MirrorAction.PAUSE, query, body)


@routes.post("/links/{link_name}/mirrors:resume")
async def update_kafka_mirror_topics_resume(
    call: Call, path: LinkPath, query: ValidateQuery, body: AlterMirrorsRequest
) -> AlteredMirrorDataList:
    """Resume mirror topics."""
    return await _alter(call, path, MirrorAction.RESUME, query, body)


@routes.post("/links/{link_name}/mirrors:promote")
async def update_kafka_mirror_topics_promote(
    call: Call, path: LinkPath, query: ValidateQuery, body: AlterMirrorsRequest
) -> AlteredMirrorDataList:
    """Promote caught-up mirror topics; refused while they lag or their lag is unknown."""
    return await _alter(call, path, MirrorAction.PROMOTE, query, body)


@routes.post("/links/{link_name}/mirrors:failover")
async def update_kafka_mirror_topics_failover(
    call: Call, path: LinkPath, query: ValidateQuery, body: AlterMirrorsRequest
) -> AlteredMirrorDataList:
    """Fail over mirror topics: they become writable at once, as they are."""
    return await _alter(call, path, MirrorAction.FAILOVER, query, body)


async def _list(
    call: Call, cluster_id: str, client: Client, link: str | None, query: ListMirrorsQuery
) -> MirrorDataList:
    mirrors = [
        mirror
        for mirror in await mirror_admin.describe_mirrors(client, link=link)
        if query.mirror_status in ("", mirror.state)
    ]
    progress = await mirror_progress(client, mirrors)
    data = [_mirror(call, cluster_id, mirror, progress[mirror.topic], False) for mirror in mirrors]
    return MirrorDataList(metadata=listed(call), data=data)


async def _alter(
    call: Call, path: LinkPath, action: MirrorAction, query: ValidateQuery, body: AlterMirrorsRequest
) -> AlteredMirrorDataList:
    async with call.parts.clusters.use(path.cluster_id) as client:
        await existing_link(client, path.link_name)
        of_link = [mirror.topic for mirror in await mirror_admin.describe_mirrors(client, link=path.link_name)]
        known = set(of_link)
        if body.mirror_topic_name_pattern:
            pattern = re.compile(body.mirror_topic_name_pattern)
            selected = [topic for topic in of_link if pattern.fullmatch(topic)]
        else:
            selected = list(dict.fromkeys(body.mirror_topic_names))
        existing = [topic for topic in selected if topic in known]
        altered = (
            await mirror_admin.alter_mirrors(client, action, existing, validate_only=query.validate_only)
            if existing
            else {}
        )
    data = [_altered(call, path, topic, altered.get(topic)) for topic in selected]
    return AlteredMirrorDataList(metadata=listed(call), data=data)


def _altered(call: Call, path: LinkPath, topic: str, altered: AlteredMirror | None) -> AlteredMirrorData:
    code: int | None = None
    message: str | None = None
    if altered is None:
        code, message = 404, f"Topic '{topic}' is not a mirror topic of link '{path.link_name}'."
    elif (refused := refusal(altered)) is not None:
        problem = problem_of(refused, path.cluster_id)
        code, message = problem.code, problem.message
    here = ("clusters", path.cluster_id, "links", path.link_name, "mirrors", topic)
    return AlteredMirrorData(
        metadata=metadata(call, here, ("kafka", path.cluster_id, "link", path.link_name, "mirror", topic)),
        cluster_id=path.cluster_id,
        mirror_topic_name=topic,
        error_code=code,
        error_message=message,
        mirror_lags=[_lag(lag) for lag in altered.lags] if altered is not None else [],
    )


def _mirror(
    call: Call,
    cluster_id: str,
    mirror: DescribedMirror,
    progress: Sequence[PartitionProgress | None],
    with_errors: bool,
) -> MirrorData:
    here = ("clusters", cluster_id, "links", mirror.link_name, "mirrors", mirror.topic)
    failed = mirror.mirror_error not in ("", "NO_ERROR")
    errors = [StateTransitionError(error_code=mirror.mirror_error, error_message=mirror.mirror_error_message)]
    return MirrorData(
        metadata=metadata(call, here, ("kafka", cluster_id, "link", mirror.link_name, "mirror", mirror.topic)),
        cluster_id=cluster_id,
        link_name=mirror.link_name,
        mirror_topic_name=mirror.topic,
        source_topic_name=mirror.source_topic,
        num_partitions=mirror.partitions,
        mirror_lags=[
            _lag(partition_lag(index, of_partition), None if of_partition is None else of_partition.last_heard_lag_ms)
            for index, of_partition in enumerate(progress)
        ],
        mirror_status=mirror.state,
        mirror_topic_error=mirror.mirror_error,
        state_time_ms=mirror.state_since_ms,
        mirror_state_transition_errors=(errors if failed else []) if with_errors else None,
    )


def _lag(lag: PartitionLag, source_age_ms: int | None = None) -> MirrorLag:
    return MirrorLag(
        partition=lag.index,
        lag=number_or_none(lag.lag),
        last_source_fetch_offset=number_or_none(lag.last_source_fetch_offset),
        source_age_ms=None if source_age_ms is None else number_or_none(source_age_ms),
    )
