"""Links of a destination cluster, and their configs. Only Isthmus clusters have them."""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin import links as link_admin
from isthmus_client.client import Client
from isthmus_client.errors import Refused
from isthmus_model.uuid_text import uuid_text
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import DescribedConfig, DescribedLink, DescribedTask
from pydantic import BaseModel, Field, model_validator

from isthmus_api.models import RequestBody, Shape
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.configs import AlterConfigsRequest, AlterOperation, Synonym, UpdateConfigRequest
from isthmus_api.routes.v3.shapes import CLUSTER, ClusterPath, KafkaList, NewConfig, Resource, listed, metadata

routes = Routes("Cluster links", CLUSTER)
_DYNAMIC = "DYNAMIC_CLUSTER_LINK_CONFIG"
_DEFAULT = "DEFAULT_CONFIG"


class LinkPath(ClusterPath):
    """One link."""

    link_name: str = Field(min_length=1)


class LinkConfigPath(LinkPath):
    """One config of a link."""

    config_name: str = Field(min_length=1)


class CreateLinkQuery(BaseModel):
    """The name of the new link, and what to validate."""

    link_name: str = Field(min_length=1, max_length=200)
    validate_only: bool = False
    validate_link: bool = True


class DescribeLinkQuery(BaseModel):
    """Whether to include the link's tasks."""

    include_tasks: bool = False


class DeleteLinkQuery(BaseModel):
    """Whether to fail over topics that are still mirrored."""

    force: bool = False
    validate_only: bool = False


class ValidateQuery(BaseModel):
    """Whether to validate only."""

    validate_only: bool = False


class CreateLinkRequest(RequestBody):
    """A new link: its source and configs; `bootstrap.servers` is the address of the source."""

    source_cluster_id: str | None = None
    remote_cluster_id: str | None = None
    configs: list[NewConfig] = Field(default_factory=list, max_length=1000)

    @model_validator(mode="after")
    def _one_source(self) -> CreateLinkRequest:
        if self.source_cluster_id and self.remote_cluster_id and self.source_cluster_id != self.remote_cluster_id:
            raise ValueError("source_cluster_id and remote_cluster_id name two clusters; a link has one source")
        return self


class TaskError(Shape):
    """What went wrong with a task of a link."""

    error_code: str
    error_message: str


class LinkTaskData(Shape):
    """A task of a link beside copying records."""

    task_name: str
    state: str
    errors: list[TaskError]


class LinkData(Resource):
    """A link as its destination knows it."""

    kind: Literal["KafkaLinkData"] = "KafkaLinkData"
    source_cluster_id: str
    destination_cluster_id: str | None
    remote_cluster_id: str
    link_name: str
    link_id: str
    cluster_link_id: str
    topic_names: list[str]
    link_error: str
    link_error_message: str
    link_state: str
    tasks: list[LinkTaskData] | None


class LinkDataList(KafkaList[LinkData]):
    """Links."""

    kind: Literal["KafkaLinkDataList"] = "KafkaLinkDataList"


class LinkConfigData(Resource):
    """A config of a link; a sensitive one has no value here."""

    kind: Literal["KafkaLinkConfigData"] = "KafkaLinkConfigData"
    link_name: str
    name: str
    value: str | None
    read_only: bool
    sensitive: bool
    source: str
    synonyms: list[Synonym]


class LinkConfigDataList(KafkaList[LinkConfigData]):
    """Configs of a link."""

    kind: Literal["KafkaLinkConfigDataList"] = "KafkaLinkConfigDataList"


@routes.get("/links")
async def list_kafka_links(call: Call, path: ClusterPath) -> LinkDataList:
    """List the links that copy into a cluster."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        links = await link_admin.describe_links(client)
    return LinkDataList(
        metadata=listed(call), data=[_link(call, path.cluster_id, link, with_tasks=False) for link in links]
    )


@routes.post("/links")
async def create_kafka_link(call: Call, path: ClusterPath, query: CreateLinkQuery, body: CreateLinkRequest) -> None:
    """Create a link; its source is looked up, unless `validate_link` is false."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await link_admin.create_link(
            client,
            query.link_name,
            {config.name: config.value or "" for config in body.configs},
            source_cluster_id=body.source_cluster_id or body.remote_cluster_id,
            validate_link=query.validate_link,
            validate_only=query.validate_only,
        )


@routes.get("/links/{link_name}")
async def get_kafka_link(call: Call, path: LinkPath, query: DescribeLinkQuery) -> LinkData:
    """Get a link."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        link = await existing_link(client, path.link_name)
    return _link(call, path.cluster_id, link, with_tasks=query.include_tasks)


@routes.delete("/links/{link_name}")
async def delete_kafka_link(call: Call, path: LinkPath, query: DeleteLinkQuery) -> None:
    """Delete a link; refused while it has active mirror topics, unless they are to be failed over."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await existing_link(client, path.link_name)
        await link_admin.delete_link(client, path.link_name, force=query.force, validate_only=query.validate_only)


@routes.get("/links/{link_name}/configs")
async def list_kafka_link_configs(call: Call, path: LinkPath) -> LinkConfigDataList:
    """List the configs of a link."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        link = await existing_link(client, path.link_name)
    return LinkConfigDataList(
        metadata=listed(call), data=[_config(call, path.cluster_id, link.name, config) for config in link.configs]
    )


@routes.get("/links/{link_name}/configs/{config_name}")
async def get_kafka_link_config(call: Call, path: LinkConfigPath) -> LinkConfigData:
    """Get a config of a link."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        link = await existing_link(client, path.link_name)
    for config in link.configs:
        if config.name == path.config_name:
            return _config(call, path.cluster_id, link.name, config)
    raise Problem(404, f"Config {path.config_name} cannot be found for link {path.link_name}.")


@routes.put("/links/{link_name}/configs/{config_name}")
async def update_kafka_link_config(call: Call, path: LinkConfigPath, body: UpdateConfigRequest) -> None:
    """Set a config of a link."""
    await _alter(call, path, {path.config_name: body.value})


@routes.delete("/links/{link_name}/configs/{config_name}")
async def delete_kafka_link_config(call: Call, path: LinkConfigPath) -> None:
    """Reset a config of a link to its default."""
    await _alter(call, path, {path.config_name: None})


@routes.put("/links/{link_name}/configs:alter")
async def update_kafka_link_config_batch(
    call: Call, path: LinkPath, query: ValidateQuery, body: AlterConfigsRequest
) -> None:
    """Change several configs of a link, all or none."""
    changes = {one.name: one.value if one.operation is AlterOperation.SET else None for one in body.data}
    await _alter(call, path, changes, validate_only=query.validate_only or body.validate_only)


async def existing_link(client: Client, name: str) -> DescribedLink:
    """One link; raises Problem when there is none."""
    try:
        return (await link_admin.describe_links(client, [name]))[0]
    except Refused as refused:
        if refused.code in _ABSENT:
            raise Problem(404, f"Link {name} cannot be found.") from refused
        raise


_ABSENT = frozenset({ErrorCode.resource_not_found, ErrorCode.unknown_topic_or_partition})


async def _alter(call: Call, path: LinkPath, changes: dict[str, str | None], *, validate_only: bool = False) -> None:
    async with call.parts.clusters.use(path.cluster_id) as client:
        await existing_link(client, path.link_name)
        await link_admin.alter_link(client, path.link_name, changes, validate_only=validate_only)


def _link(call: Call, cluster_id: str, link: DescribedLink, *, with_tasks: bool) -> LinkData:
    here = ("clusters", cluster_id, "links", link.name)
    link_id = "" if link.link_id is None else uuid_text(link.link_id)
    return LinkData(
        metadata=metadata(call, here, ("kafka", cluster_id, "link", link.name)),
        cluster_id=cluster_id,
        source_cluster_id=link.source_cluster_id,
        destination_cluster_id=None,
        remote_cluster_id=link.source_cluster_id,
        link_name=link.name,
        link_id=link_id,
        cluster_link_id=link_id,
        topic_names=list(link.mirror_topics),
        link_error=link.link_error,
        link_error_message=link.link_error_message,
        link_state=link.state,
        tasks=[_task(task) for task in link.tasks] if with_tasks else None,
    )


def _task(task: DescribedTask) -> LinkTaskData:
    failed = task.error not in ("", "NO_ERROR")
    errors = [TaskError(error_code=task.error, error_message=task.error_message)] if failed else []
    return LinkTaskData(task_name=task.name, state=task.state, errors=errors)


def _config(call: Call, cluster_id: str, link: str, config: DescribedConfig) -> LinkConfigData:
    here = ("clusters", cluster_id, "links", link, "configs", config.name)
    return LinkConfigData(
        metadata=metadata(call, here, ("kafka", cluster_id, "link", link, "config", config.name)),
        cluster_id=cluster_id,
        link_name=link,
        name=config.name,
        value=config.value,
        read_only=False,
        sensitive=config.is_sensitive,
        source=_DEFAULT if config.is_default else _DYNAMIC,
        synonyms=[],
    )
