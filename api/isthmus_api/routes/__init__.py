"""A file for each resource: `v3` in the shapes of Confluent's REST v3, `v1` Isthmus' own."""

from isthmus_api.registry import Route, in_order
from isthmus_api.routes.v1 import (
    audit,
    balancer,
    events,
    inventory,
    lag,
    mirror_flows,
    replicas,
    session,
    tasks,
    topology,
)
from isthmus_api.routes.v3 import (
    brokers,
    cluster_configs,
    clusters,
    groups,
    lags,
    links,
    mirrors,
    partitions,
    replica_status,
    streams_groups,
    topic_configs,
    topics,
)


def all_routes() -> list[Route]:
    """In the order of matching."""
    ours = (session, inventory, topology, replicas, lag, mirror_flows, balancer, tasks, audit, events)
    v3 = (
        clusters,
        cluster_configs,
        brokers,
        topics,
        topic_configs,
        partitions,
        replica_status,
        groups,
        lags,
        streams_groups,
        links,
        mirrors,
    )
    return in_order(group.routes for group in (*ours, *v3))
