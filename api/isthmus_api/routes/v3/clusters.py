"""Clusters."""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin import cluster as cluster_admin

from isthmus_api.registry import Routes
from isthmus_api.request_context import KAFKA_V3, Call
from isthmus_api.routes.v3.shapes import ClusterPath, KafkaList, Related, Resource, listed, metadata, related

routes = Routes("Clusters", KAFKA_V3)


class ClusterData(Resource):
    """A cluster; an unreachable one has no controller."""

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
    """List the registered clusters from the latest snapshots."""
    clusters = await call.parts.inventory.clusters()
    data = [_cluster(call, one.cluster_id, call.parts.watch.controller(one.cluster_id)) for one in clusters]
    return ClusterDataList(metadata=listed(call), data=data)


@routes.get("/clusters/{cluster_id}")
async def get_kafka_cluster(call: Call, path: ClusterPath) -> ClusterData:
    """Get a cluster."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        controller = (await cluster_admin.describe(client)).controller_id
    return _cluster(call, path.cluster_id, controller)


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
