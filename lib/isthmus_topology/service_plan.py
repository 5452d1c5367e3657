"""Plan the processes of the services of a topology: names, commands, ports and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from isthmus_topology.plan import HOST, Plan, ServicePlan
from isthmus_topology.services import Balancer, ControlPlane, Linker, Load, Mirror

API: Final = "api"
_MIRROR_FILE: Final = "mm2.properties"


def plan_services(plan: Plan, ports: Iterator[int], directory: Path) -> tuple[ServicePlan, ...]:
    """Plan the services in the order in which they start."""
    return tuple(_Planner(plan, ports, directory).all())


class _Planner:
    def __init__(self, plan: Plan, ports: Iterator[int], directory: Path) -> None:
        self._plan = plan
        self._ports = ports
        self._directory = directory

    def all(self) -> Iterator[ServicePlan]:
        services = self._plan.topology.services
        for linker in services.linkers:
            yield from self._linkers(linker)
        yield from map(self._mirror, services.mirrors)
        yield from map(self._balancer, services.balancers)
        if services.control_plane is not None:
            yield self._control_plane(services.control_plane)
        yield from map(self._load, services.loads)

    def _linkers(self, linker: Linker) -> Iterator[ServicePlan]:
        bootstrap = self._plan.bootstrap(linker.cluster, linker.region)
        for number in range(1, linker.count + 1):
            name = f"linker-{linker.cluster}-{linker.region}" + (f"-{number}" if linker.count > 1 else "")
            http = self._http()
            yield ServicePlan(name, "linker", linker.region, ("linker", "--bootstrap", bootstrap, "--http", http), http)

    def _mirror(self, mirror: Mirror) -> ServicePlan:
        name, http = f"mirror-{mirror.source}-{mirror.target}", self._http()
        settings = {
            "clusters": f"{mirror.source}, {mirror.target}",
            f"{mirror.source}.bootstrap.servers": self._plan.bootstrap(mirror.source, mirror.region),
            f"{mirror.target}.bootstrap.servers": self._plan.bootstrap(mirror.target, mirror.region),
            f"{mirror.source}->{mirror.target}.enabled": "true",
            f"{mirror.source}->{mirror.target}.topics": mirror.topics,
            **{f"{mirror.source}->{mirror.target}.{key}": value for key, value in mirror.config.items()},
        }
        command = ("mirror", "-c", str(self._directory / name / _MIRROR_FILE), "--http", http)
        lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
        return ServicePlan(name, "mirror", mirror.region, command, http, {_MIRROR_FILE: lines})

    def _balancer(self, balancer: Balancer) -> ServicePlan:
        http = self._http()
        bootstrap = self._plan.bootstrap(balancer.cluster, balancer.region)
        command = ("balancer", "--bootstrap", bootstrap, "--http", http)
        return ServicePlan(f"balancer-{balancer.cluster}", "balancer", balancer.region, command, http)

    def _control_plane(self, control_plane: ControlPlane) -> ServicePlan:
        listen = control_plane.listen
        command = ("api", "--listen", listen, "--data-dir", str(self._directory))
        return ServicePlan(API, API, control_plane.region, command, listen)

    def _load(self, load: Load) -> ServicePlan:
        command = (
            *("load", load.topic, "--bootstrap", self._plan.bootstrap(load.cluster, load.region)),
            *("--rate", str(load.records_per_second), "--bytes", str(load.record_bytes)),
            *(word for group in load.groups for word in ("--group", group)),
        )
        return ServicePlan(f"load-{load.cluster}-{load.topic}", "load", load.region, command, None)

    def _http(self) -> str:
        return f"{HOST}:{next(self._ports)}"
