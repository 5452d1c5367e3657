"""The inventory: regions, clusters and services."""

from __future__ import annotations

from pydantic import BaseModel, Field

from isthmus_api.clusters.clients import identify
from isthmus_api.core.inventory import ClusterKind, Region, RegisteredCluster, Service, ServiceKind
from isthmus_api.models import RequestBody, Shape
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call

routes = Routes("Inventory", "/api/v1")

# Without control characters; PostgreSQL refuses NUL.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_TEXT = r"^[^\x00-\x1f]*$"


class NamePath(BaseModel):
    """A region or a service."""

    name: str = Field(pattern=_NAME, max_length=255)


class ClusterIdPath(BaseModel):
    """A cluster."""

    cluster_id: str = Field(min_length=1, max_length=255)


class PutRegion(RequestBody):
    """The location of a region."""

    title: str = Field("", max_length=200, pattern=_TEXT)
    latitude: float = Field(ge=-90, le=90)
    longitude: float = Field(ge=-180, le=180)


class RegionData(Shape):
    """A region on the map; its name is the first part of brokers' racks."""

    name: str
    title: str
    latitude: float
    longitude: float


class RegionList(Shape):
    """By name."""

    regions: list[RegionData]


class RegisterCluster(RequestBody):
    """A cluster by any of its brokers."""

    name: str = Field(pattern=_NAME, max_length=255)
    bootstrap_servers: str = Field(min_length=1, max_length=4096, pattern=_TEXT)


class ClusterEntry(Shape):
    """A registered cluster."""

    cluster_id: str
    name: str
    bootstrap_servers: str
    kind: ClusterKind
    regions: list[str]
    created_ms: int


class ClusterEntries(Shape):
    """By name."""

    clusters: list[ClusterEntry]


class RegisterService(RequestBody):
    """A process and the address of its metrics."""

    name: str = Field(pattern=_NAME, max_length=255)
    kind: ServiceKind
    metrics_url: str = Field(pattern=r"^https?://[^\s\x00-\x1f]+$", max_length=2048)
    region: str | None = Field(None, pattern=_NAME, max_length=255)


class ServiceEntry(Shape):
    """A registered service."""

    name: str
    kind: ServiceKind
    metrics_url: str
    region: str | None
    created_ms: int


class ServiceEntries(Shape):
    """By name."""

    services: list[ServiceEntry]


@routes.get("/regions")
async def list_regions(call: Call) -> RegionList:
    """List the regions with a location."""
    return RegionList(regions=[_region(region) for region in await call.parts.inventory.regions()])


@routes.put("/regions/{name}")
async def put_region(call: Call, path: NamePath, body: PutRegion) -> RegionData:
    """Set the location of a region."""
    region = Region(path.name, body.title or path.name, body.latitude, body.longitude)
    await call.parts.inventory.put_region(region)
    return _region(region)


@routes.delete("/regions/{name}")
async def delete_region(call: Call, path: NamePath) -> None:
    """Remove the location of a region."""
    if not await call.parts.inventory.remove_region(path.name):
        raise Problem(404, f"There is no region {path.name}.")


@routes.get("/clusters")
async def list_clusters(call: Call) -> ClusterEntries:
    """List the registered clusters from the inventory."""
    return ClusterEntries(clusters=[_cluster(cluster) for cluster in await call.parts.inventory.clusters()])


@routes.post("/clusters", status=201)
async def register_cluster(call: Call, body: RegisterCluster) -> ClusterEntry:
    """Register a cluster; its id and kind are looked up."""
    identity = await identify(body.name, body.bootstrap_servers)
    cluster = RegisteredCluster(
        identity.cluster_id, body.name, body.bootstrap_servers, identity.kind, identity.regions, call.parts.now_ms()
    )
    await call.parts.inventory.add_cluster(cluster)
    return _cluster(cluster)


@routes.get("/clusters/{cluster_id}")
async def get_cluster(call: Call, path: ClusterIdPath) -> ClusterEntry:
    """Get a registered cluster from the inventory."""
    return _cluster(await call.parts.clusters.registered(path.cluster_id))


@routes.delete("/clusters/{cluster_id}")
async def unregister_cluster(call: Call, path: ClusterIdPath) -> None:
    """Remove a cluster from the inventory; the cluster itself is not changed."""
    if not await call.parts.inventory.remove_cluster(path.cluster_id):
        raise Problem(404, f"Cluster {path.cluster_id} cannot be found.")
    call.parts.clusters.forget(path.cluster_id)


@routes.get("/services")
async def list_services(call: Call) -> ServiceEntries:
    """List the registered services."""
    return ServiceEntries(services=[_service(service) for service in await call.parts.inventory.services()])


@routes.post("/services", status=201)
async def register_service(call: Call, body: RegisterService) -> ServiceEntry:
    """Register a service."""
    service = Service(body.name, body.kind, body.metrics_url, body.region, call.parts.now_ms())
    await call.parts.inventory.add_service(service)
    return _service(service)


@routes.delete("/services/{name}")
async def unregister_service(call: Call, path: NamePath) -> None:
    """Remove a service from the inventory."""
    if not await call.parts.inventory.remove_service(path.name):
        raise Problem(404, f"There is no service {path.name}.")


def _region(region: Region) -> RegionData:
    return RegionData(name=region.name, title=region.title, latitude=region.latitude, longitude=region.longitude)


def _cluster(cluster: RegisteredCluster) -> ClusterEntry:
    return ClusterEntry(
        cluster_id=cluster.cluster_id,
        name=cluster.name,
        bootstrap_servers=cluster.bootstrap_servers,
        kind=cluster.kind,
        regions=list(cluster.regions),
        created_ms=cluster.created_ms,
    )


def _service(service: Service) -> ServiceEntry:
    return ServiceEntry(
        name=service.name,
        kind=service.kind,
        metrics_url=service.metrics_url,
        region=service.region,
        created_ms=service.created_ms,
    )
