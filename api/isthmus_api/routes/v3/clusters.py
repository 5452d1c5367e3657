"""Clusters."""

from __future__ import annotations

import asyncio
from typing import Literal

from isthmus_client.admin import cluster as cluster_admin

from isthmus_api.call import KAFKA_V3, Call
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.routes.v3.shapes import ClusterPath, KafkaList, Related, Resource, listed, metadata, related

routes = Routes("Clusters", KAFKA_V3)


class ClusterData(Resource):
    """A cluster; one that does not answer has no controller."""

    kind: Literal["KafkaCluster"] = "KafkaCluster"
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related


class ClusterDataList(KafkaList[ClusterData]):
    """The registered clusters."""

    kind: Literal["KafkaClusterList"] = "KafkaClusterList"


@routes.get("/clusters")
async def list_kafka_clusters(call: Call) -> ClusterDataList:
    """List the registered clusters, those that do not answer as well."""
    clusters = await call.parts.inventory.clusters()
    controllers = await asyncio.gather(*(_controller_if_there(call, one.cluster_id) for one in clusters))
    data = [_cluster(call, one.cluster_id, known) for one, known in zip(clusters, controllers, strict=True)]
    return ClusterDataList(metadata=listed(call), data=data)


@routes.get("/clusters/{cluster_id}")
async def get_kafka_cluster(call: Call, path: ClusterPath) -> ClusterData:
    """Get a cluster."""
    return _cluster(call, path.cluster_id, await _controller(call, path.cluster_id))


async def _controller(call: Call, cluster_id: str) -> int:
    async with call.parts.clusters.use(cluster_id) as client:
        return (await cluster_admin.describe(client)).controller_id


async def _controller_if_there(call: Call, cluster_id: str) -> int | None:
    try:
        return await _controller(call, cluster_id)
    except Problem:
        return None


def _cluster(call: Call, cluster_id: str, controller: int | None) -> ClusterData:
    here = ("clusters", cluster_id)
    return ClusterData(
        metadata=metadata(call, here, ("kafka", cluster_id)),
        cluster_id=cluster_id,
        controller=None if controller is None else related(call, *here, "brokers", controller),
        acls=related(call, *here, "acls"),
        brokers=related(call, *here, "brokers"),
        broker_configs=related(call, *here, "broker-configs"),
        consumer_groups=related(call, *here, "consumer-groups"),
        topics=related(call, *here, "topics"),
        partition_reassignments=related(call, *here, "topics", "-", "partitions", "-", "reassignment"),
    )
