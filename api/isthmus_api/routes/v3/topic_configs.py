"""Configs of topics."""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin import configs as config_admin
from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.configs import Config
from isthmus_client.requests_by_broker import results
from pydantic import Field

from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.configs import (
    AlterConfigsRequest,
    ConfigData,
    UpdateConfigRequest,
    alter,
    changes_of,
    config_fields,
    configs_of,
    of_topic,
    one_config,
    set_or_reset,
)
from isthmus_api.routes.v3.shapes import CLUSTER, ClusterPath, KafkaList, listed, metadata
from isthmus_api.routes.v3.topics import TopicPath

routes = Routes("Topic configs", CLUSTER)


class TopicConfigPath(TopicPath):
    """One config of a topic."""

    name: str = Field(min_length=1)


class TopicConfigData(ConfigData):
    """A config of a topic."""

    kind: Literal["KafkaTopicConfig"] = "KafkaTopicConfig"
    topic_name: str


class TopicConfigDataList(KafkaList[TopicConfigData]):
    """Configs of topics."""

    kind: Literal["KafkaTopicConfigList"] = "KafkaTopicConfigList"


@routes.get("/topics/-/configs")
async def list_kafka_all_topic_configs(call: Call, path: ClusterPath) -> TopicConfigDataList:
    """List the configs of all topics."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        names = await topic_admin.list_topics(client)
        configs = results(await config_admin.describe(client, [of_topic(name) for name in names]))
    data = [
        _config(call, path.cluster_id, topic.name, one) for topic, of_topic_ in configs.items() for one in of_topic_
    ]
    return TopicConfigDataList(metadata=listed(call), data=data)


@routes.get("/topics/{topic_name}/configs")
async def list_kafka_topic_configs(call: Call, path: TopicPath) -> TopicConfigDataList:
    """List the configs of a topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        configs = await configs_of(client, of_topic(path.topic_name))
    data = [_config(call, path.cluster_id, path.topic_name, config) for config in configs]
    return TopicConfigDataList(metadata=listed(call), data=data)


@routes.get("/topics/{topic_name}/configs/{name}")
async def get_kafka_topic_config(call: Call, path: TopicConfigPath) -> TopicConfigData:
    """Get a config of a topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        configs = await one_config(client, of_topic(path.topic_name), path.name)
    return _config(call, path.cluster_id, path.topic_name, configs)


@routes.put("/topics/{topic_name}/configs/{name}")
async def update_kafka_topic_config(call: Call, path: TopicConfigPath, body: UpdateConfigRequest) -> None:
    """Set a config of a topic."""
    await alter(call, path.cluster_id, of_topic(path.topic_name), [set_or_reset(path.name, body.value)])


@routes.delete("/topics/{topic_name}/configs/{name}")
async def delete_kafka_topic_config(call: Call, path: TopicConfigPath) -> None:
    """Reset a config of a topic to its default."""
    await alter(call, path.cluster_id, of_topic(path.topic_name), [set_or_reset(path.name, None)])


@routes.post("/topics/{topic_name}/configs:alter")
async def update_kafka_topic_config_batch(call: Call, path: TopicPath, body: AlterConfigsRequest) -> None:
    """Change several configs of a topic, all or none."""
    resource = of_topic(path.topic_name)
    await alter(call, path.cluster_id, resource, changes_of(body), validate_only=body.validate_only)


def _config(call: Call, cluster_id: str, topic: str, config: Config) -> TopicConfigData:
    here = ("clusters", cluster_id, "topics", topic, "configs", config.name)
    crn = ("kafka", cluster_id, "topic", topic, "config", config.name)
    fields = {
        "metadata": metadata(call, here, crn),
        "cluster_id": cluster_id,
        "topic_name": topic,
        **config_fields(config),
    }
    return TopicConfigData.model_validate(fields)
