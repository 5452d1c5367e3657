"""The inventory: registered regions, clusters and services."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Table, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from isthmus_api.core.inventory import ClusterKind, Region, RegisteredCluster, Service, ServiceKind
from isthmus_api.limits import CLUSTERS_MAX, REGIONS_MAX, SERVICES_MAX
from isthmus_api.problems import Problem
from isthmus_api.store import tables


class Inventory:
    """The inventory in the database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def regions(self) -> list[Region]:
        """Sorted by name."""
        return [Region(**row) for row in await self._rows(tables.regions, tables.regions.c.name)]

    async def put_region(self, region: Region) -> None:
        """Add a region, or change its location."""
        async with self._engine.begin() as connection:
            where = tables.regions.c.name == region.name
            known = await connection.execute(update(tables.regions).where(where).values(**asdict(region)))
            if known.rowcount == 0:
                await _bounded(connection, tables.regions, REGIONS_MAX, "regions")
                await _insert(connection, tables.regions, asdict(region), f"Region {region.name} was added meanwhile.")

    async def remove_region(self, name: str) -> bool:
        """Remove it; returns whether it existed."""
        return await self._remove(tables.regions, tables.regions.c.name == name)

    async def clusters(self) -> list[RegisteredCluster]:
        """Sorted by name."""
        return [_cluster(row) for row in await self._rows(tables.clusters, tables.clusters.c.name)]

    async def cluster(self, cluster_id: str) -> RegisteredCluster | None:
        """One cluster."""
        async with self._engine.connect() as connection:
            query = select(tables.clusters).where(tables.clusters.c.cluster_id == cluster_id)
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else _cluster(dict(row))

    async def add_cluster(self, cluster: RegisteredCluster) -> None:
        """Add a cluster; raises Problem when its name or id is registered already."""
        async with self._engine.begin() as connection:
            same = (tables.clusters.c.name == cluster.name) | (tables.clusters.c.cluster_id == cluster.cluster_id)
            existing = (await connection.execute(select(tables.clusters).where(same))).mappings().first()
            if existing is not None:
                raise Problem(409, _duplicate(cluster, _cluster(dict(existing))))
            await _bounded(connection, tables.clusters, CLUSTERS_MAX, "clusters")
            values = {**asdict(cluster), "regions": list(cluster.regions)}
            await _insert(connection, tables.clusters, values, f"Cluster {cluster.name} was registered meanwhile.")

    async def update_regions(self, cluster_id: str, regions: tuple[str, ...]) -> None:
        """Update the regions of a cluster."""
        async with self._engine.begin() as connection:
            where = tables.clusters.c.cluster_id == cluster_id
            await connection.execute(update(tables.clusters).where(where).values(regions=list(regions)))

    async def remove_cluster(self, cluster_id: str) -> bool:
        """Remove it; returns whether it existed."""
        return await self._remove(tables.clusters, tables.clusters.c.cluster_id == cluster_id)

    async def services(self) -> list[Service]:
        """Sorted by name."""
        rows = await self._rows(tables.services, tables.services.c.name)
        return [Service(**{**row, "kind": ServiceKind(row["kind"])}) for row in rows]

    async def add_service(self, service: Service) -> None:
        """Add a service; raises Problem when its name is registered already."""
        async with self._engine.begin() as connection:
            await _bounded(connection, tables.services, SERVICES_MAX, "services")
            message = f"A service named {service.name} is registered already."
            await _insert(connection, tables.services, asdict(service), message)

    async def remove_service(self, name: str) -> bool:
        """Remove it; returns whether it existed."""
        return await self._remove(tables.services, tables.services.c.name == name)

    async def _rows(self, table: Table, order: Any) -> list[dict[str, Any]]:
        async with self._engine.connect() as connection:
            return [dict(row) for row in (await connection.execute(select(table).order_by(order))).mappings()]

    async def _remove(self, table: Table, where: Any) -> bool:
        async with self._engine.begin() as connection:
            return (await connection.execute(delete(table).where(where))).rowcount > 0


def _cluster(row: dict[str, Any]) -> RegisteredCluster:
    return RegisteredCluster(**{**row, "kind": ClusterKind(row["kind"]), "regions": tuple(row["regions"])})


def _duplicate(new: RegisteredCluster, existing: RegisteredCluster) -> str:
    if new.cluster_id == existing.cluster_id:
        return f"This cluster ({existing.cluster_id}) is registered already, as {existing.name}."
    return f"A cluster named {existing.name} is registered already; its id is {existing.cluster_id}."


async def _bounded(connection: AsyncConnection, table: Table, most: int, what: str) -> None:
    count = (await connection.execute(select(func.count()).select_from(table))).scalar_one()
    if count >= most:
        raise Problem(409, f"There are {most} {what}, the maximum.")


async def _insert(connection: AsyncConnection, table: Table, values: dict[str, Any], duplicate: str) -> None:
    try:
        await connection.execute(insert(table).values(**values))
    except IntegrityError as error:
        raise Problem(409, duplicate) from error
