"""Configs that all brokers of a cluster have, as they were set at run time."""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin.configs import Config
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
    of_broker,
    one_config,
    set_or_reset,
)
from isthmus_api.routes.v3.shapes import CLUSTER, ClusterPath, KafkaList, listed, metadata

routes = Routes("Cluster configs", CLUSTER)
_ALL = of_broker(None)


class ClusterConfigPath(ClusterPath):
    """One config of all brokers."""

    name: str = Field(min_length=1)


class ClusterConfigData(ConfigData):
    """A config of all brokers."""

    kind: Literal["KafkaClusterConfig"] = "KafkaClusterConfig"
    config_type: Literal["BROKER"] = "BROKER"


class ClusterConfigDataList(KafkaList[ClusterConfigData]):
    """Configs of all brokers."""

    kind: Literal["KafkaClusterConfigList"] = "KafkaClusterConfigList"


@routes.get("/broker-configs")
async def list_kafka_cluster_configs(call: Call, path: ClusterPath) -> ClusterConfigDataList:
    """List the configs that were set for all brokers."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        configs = await configs_of(client, _ALL)
    return ClusterConfigDataList(metadata=listed(call), data=[_config(call, path.cluster_id, one) for one in configs])


@routes.get("/broker-configs/{name}")
async def get_kafka_cluster_config(call: Call, path: ClusterConfigPath) -> ClusterConfigData:
    """Get a config that was set for all brokers."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        return _config(call, path.cluster_id, await one_config(client, _ALL, path.name))


@routes.put("/broker-configs/{name}")
async def update_kafka_cluster_config(call: Call, path: ClusterConfigPath, body: UpdateConfigRequest) -> None:
    """Set a config for all brokers."""
    await alter(call, path.cluster_id, _ALL, [set_or_reset(path.name, body.value)])


@routes.delete("/broker-configs/{name}")
async def delete_kafka_cluster_config(call: Call, path: ClusterConfigPath) -> None:
    """Reset a config of all brokers to its default."""
    await alter(call, path.cluster_id, _ALL, [set_or_reset(path.name, None)])


@routes.post("/broker-configs:alter")
async def update_kafka_cluster_configs(call: Call, path: ClusterPath, body: AlterConfigsRequest) -> None:
    """Change several configs of all brokers, all or none."""
    await alter(call, path.cluster_id, _ALL, changes_of(body), validate_only=body.validate_only)


def _config(call: Call, cluster_id: str, config: Config) -> ClusterConfigData:
    here = ("clusters", cluster_id, "broker-configs", config.name)
    crn = ("kafka", cluster_id, "broker-config", config.name)
    return ClusterConfigData.model_validate(
        {"metadata": metadata(call, here, crn), "cluster_id": cluster_id, **config_fields(config)}
    )
