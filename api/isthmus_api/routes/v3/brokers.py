"""Brokers, what they hold, and their configs."""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin import cluster as cluster_admin
from isthmus_client.admin import configs as config_admin
from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.cluster import BrokerStatus
from isthmus_client.admin.configs import Config
from isthmus_client.client import Client
from isthmus_client.requests_by_broker import results
from pydantic import Field

from isthmus_api.problems import Problem
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
from isthmus_api.routes.v3.partitions import ReplicaDataList, replica_data
from isthmus_api.routes.v3.shapes import (
    CLUSTER,
    INT32_MAX,
    ClusterPath,
    KafkaList,
    Related,
    Resource,
    listed,
    metadata,
    related,
)

routes = Routes("Brokers", CLUSTER)


class BrokerPath(ClusterPath):
    """One broker."""

    broker_id: int = Field(ge=0, le=INT32_MAX)


class BrokerConfigPath(BrokerPath):
    """One config of a broker."""

    name: str = Field(min_length=1)


class BrokerData(Resource):
    """A broker."""

    kind: Literal["KafkaBroker"] = "KafkaBroker"
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Related
    partition_replicas: Related


class BrokerDataList(KafkaList[BrokerData]):
    """Brokers."""

    kind: Literal["KafkaBrokerList"] = "KafkaBrokerList"


class BrokerConfigData(ConfigData):
    """A config of a broker."""

    kind: Literal["KafkaBrokerConfig"] = "KafkaBrokerConfig"
    broker_id: int


class BrokerConfigDataList(KafkaList[BrokerConfigData]):
    """Configs of brokers."""

    kind: Literal["KafkaBrokerConfigList"] = "KafkaBrokerConfigList"


@routes.get("/brokers")
async def list_kafka_brokers(call: Call, path: ClusterPath) -> BrokerDataList:
    """List the brokers."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        described = (await cluster_admin.describe(client)).brokers
    return BrokerDataList(metadata=listed(call), data=[_broker(call, path.cluster_id, broker) for broker in described])


@routes.get("/brokers/{broker_id}")
async def get_kafka_broker(call: Call, path: BrokerPath) -> BrokerData:
    """Get a broker."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        return _broker(call, path.cluster_id, await _registered(client, path.broker_id))


@routes.get("/brokers/{broker_id}/partition-replicas")
async def list_kafka_partition_replicas(call: Call, path: BrokerPath) -> ReplicaDataList:
    """List the replicas that a broker holds."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await _registered(client, path.broker_id)
        topics = await topic_admin.list_topics(client)
    data = [
        replica_data(call, path.cluster_id, topic.name, partition, path.broker_id)
        for topic in topics.values()
        for partition in topic.partitions.values()
        if path.broker_id in partition.replicas
    ]
    return ReplicaDataList(metadata=listed(call), data=data)


@routes.get("/brokers/-/configs")
async def list_kafka_all_broker_configs(call: Call, path: ClusterPath) -> BrokerConfigDataList:
    """List the configs of all brokers."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        brokers = [broker.node_id for broker in (await cluster_admin.describe(client)).brokers if not broker.fenced]
        described = results(await config_admin.describe(client, [of_broker(broker) for broker in brokers]))
    data = [
        _config(call, path.cluster_id, int(broker.name), config)
        for broker, configs in described.items()
        for config in configs
    ]
    return BrokerConfigDataList(metadata=listed(call), data=data)


@routes.get("/brokers/{broker_id}/configs")
async def list_kafka_broker_configs(call: Call, path: BrokerPath) -> BrokerConfigDataList:
    """List the configs of a broker."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await _registered(client, path.broker_id)
        described = await configs_of(client, of_broker(path.broker_id))
    data = [_config(call, path.cluster_id, path.broker_id, config) for config in described]
    return BrokerConfigDataList(metadata=listed(call), data=data)


@routes.get("/brokers/{broker_id}/configs/{name}")
async def get_kafka_broker_config(call: Call, path: BrokerConfigPath) -> BrokerConfigData:
    """Get a config of a broker."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await _registered(client, path.broker_id)
        described = await one_config(client, of_broker(path.broker_id), path.name)
    return _config(call, path.cluster_id, path.broker_id, described)


@routes.put("/brokers/{broker_id}/configs/{name}")
async def update_kafka_broker_config(call: Call, path: BrokerConfigPath, body: UpdateConfigRequest) -> None:
    """Set a config of a broker."""
    await _exists(call, path)
    await alter(call, path.cluster_id, of_broker(path.broker_id), [set_or_reset(path.name, body.value)])


@routes.delete("/brokers/{broker_id}/configs/{name}")
async def delete_kafka_broker_config(call: Call, path: BrokerConfigPath) -> None:
    """Reset a config of a broker to its default."""
    await _exists(call, path)
    await alter(call, path.cluster_id, of_broker(path.broker_id), [set_or_reset(path.name, None)])


@routes.post("/brokers/{broker_id}/configs:alter")
async def update_kafka_broker_config_batch(call: Call, path: BrokerPath, body: AlterConfigsRequest) -> None:
    """Change several configs of a broker, all or none."""
    await _exists(call, path)
    resource = of_broker(path.broker_id)
    await alter(call, path.cluster_id, resource, changes_of(body), validate_only=body.validate_only)


async def _exists(call: Call, path: BrokerPath) -> None:
    async with call.parts.clusters.use(path.cluster_id) as client:
        await _registered(client, path.broker_id)


async def _registered(client: Client, broker_id: int) -> BrokerStatus:
    for broker in (await cluster_admin.describe(client)).brokers:
        if broker.node_id == broker_id:
            return broker
    raise Problem(404, f"Broker {broker_id} cannot be found.")


def _broker(call: Call, cluster_id: str, broker: BrokerStatus) -> BrokerData:
    here = ("clusters", cluster_id, "brokers", broker.node_id)
    return BrokerData(
        metadata=metadata(call, here, ("kafka", cluster_id, "broker", broker.node_id)),
        cluster_id=cluster_id,
        broker_id=broker.node_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        configs=related(call, *here, "configs"),
        partition_replicas=related(call, *here, "partition-replicas"),
    )


def _config(call: Call, cluster_id: str, broker_id: int, config: Config) -> BrokerConfigData:
    here = ("clusters", cluster_id, "brokers", broker_id, "configs", config.name)
    crn = ("kafka", cluster_id, "broker", broker_id, "config", config.name)
    fields = {
        "metadata": metadata(call, here, crn),
        "cluster_id": cluster_id,
        "broker_id": broker_id,
        **config_fields(config),
    }
    return BrokerConfigData.model_validate(fields)
