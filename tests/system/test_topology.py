"""`isthmus up` and its kin as commands: a small topology from a file, the built-in one, faults made by hand, and what cannot be."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_topology.description import read_topology
from isthmus_topology.planner import make_plan
from isthmus_topology.processes import open_site
from isthmus_topology.wiring import ControlPlane

from tests.ports import free_ports
from tests.system.ledger import wait_until
from tests.system.quorums import wait_for
from tests.system.site import Site, two_regions, with_console
from tests.system.stretched import ports_of

SMALL: Final = (
    two_regions("small", west_brokers=2, latency_ms=3)
    + """
[[clusters.topics]]
name = "orders"
partitions = 4
replication_factor = 3
"""
)


class Commands(Site):
    """And what tests want to know of it."""

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.run("status", "-o", "json"))
        return told

    def states(self) -> dict[str, str]:
        return {node["node"]: node["state"] for node in self.status()["nodes"]}

    def wan(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(way["from"], way["to"]): way for way in json.loads(self.run("wan", "show", "-o", "json"))}

    def pids(self) -> set[int]:
        """Processes whose command line names the directory."""
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.directory).encode() in command and b"isthmus_cli" in command:
                    found.add(int(entry.name))
        return found


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    made = Commands(tmp_path, SMALL)
    yield made
    made.down()
    assert made.pids() == set()


def test_a_small_topology_by_its_commands(commands: Commands) -> None:
    said = commands.up()
    assert said.splitlines() == [
        "cluster small is up",
        f"  in west: 127.0.0.1:{commands.base},127.0.0.1:{commands.base + 1}",
        f"  in east: 127.0.0.1:{commands.base + 2}",
    ]
    overview = commands.status()
    assert overview["troubles"] == []
    assert [(n["node"], n["id"], n["rack"], n["roles"], n["state"]) for n in overview["nodes"]] == [
        ("west-1", 1, "west/a", "broker,controller", "running"),
        ("west-2", 2, "west/b", "broker", "running"),
        ("east-1", 3, "east/a", "broker", "running"),
    ]
    assert {region["region"]: region["replicas"] for region in overview["regions"]} == {"west": 8, "east": 4}
    table = commands.run("status")
    assert all(word in table for word in ("west-1", "east-1", "BANDWIDTH MBIT", "BOOTSTRAP", "running"))

    commands.run("wan", "cut", "west", "east", "--one-way")
    assert {way: state["cut"] for way, state in commands.wan().items()} == {
        ("west", "east"): True,
        ("east", "west"): False,
    }
    commands.run("wan", "heal")
    commands.run("wan", "set", "west", "east", "--latency", "7", "--loss", "0.01")
    assert {(state["cut"], state["latency_ms"], state["loss"]) for state in commands.wan().values()} == {
        (False, 7, 0.01)
    }

    commands.run("pause", "east-1")
    assert commands.states()["east-1"] == "paused"
    commands.run("resume", "east-1")
    commands.run("kill", "west-2")
    wait_until(lambda: commands.states() == {"west-1": "running", "west-2": "dead", "east-1": "running"}, "a dead node")
    assert "west-2 is not running; `isthmus resume west-2` starts it" in commands.run("pause", "west-2", status=1)
    commands.run("resume", "west-2")
    before = commands.pids()
    commands.run("kill", "east-1")
    commands.up()  # starts what is missing, and nothing else
    assert len(commands.pids()) == len(before) == 4
    assert len(commands.pids() & before) == 3
    assert set(commands.states().values()) == {"running"}

    commands.run("down")
    assert commands.pids() == set()
    assert (commands.directory / "west-1" / "data").is_dir()
    assert "is not running" in commands.run("kill", "west-1", status=1)
    commands.up()
    assert {region["region"]: region["replicas"] for region in commands.status()["regions"]} == {"west": 8, "east": 4}
    commands.run("down", "--purge")
    assert not commands.directory.exists()


def test_what_cannot_be_is_said_and_leaves_nothing_running(commands: Commands) -> None:
    for command in (["status"], ["down"], ["kill", "west-1"], ["wan", "show"]):
        assert "nothing was started in" in commands.run(*command, status=1)
    taken = sorted(ports_of(make_plan(read_topology(commands.text), commands.directory)))[1]
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        assert f"cannot listen on 127.0.0.1:{taken}: Address already in use" in commands.run(
            "up", str(commands.file), status=1
        )
        assert commands.pids() == set()
    commands.up()
    assert "north-1 does not exist; choose one of west-1, west-2, east-1" in commands.run("kill", "north-1", status=1)
    assert "not two of the regions west, east" in commands.run("wan", "cut", "west", "north", status=1)
    other_file = commands.file.with_name("other.toml")
    other_file.write_text(commands.text.replace("orders", "sales"))
    assert "holds another topology" in commands.run("up", str(other_file), status=1)
    assert len(commands.pids()) == 4


def test_the_built_in_platform_runs_everything_and_registers_it_with_the_control_plane(tmp_path: Path) -> None:
    printed = Commands(tmp_path, SMALL).run("up", "--print")
    (port,) = free_ports(1)
    commands = Commands(tmp_path, with_console(printed, port))
    try:
        assert f"console http://127.0.0.1:{port}, user admin, key " in commands.up()
        overview = commands.status()
        assert overview["troubles"] == []
        assert {service["state"] for service in overview["services"]} == {"running"}
        site = open_site(commands.directory)
        plane = ControlPlane(site)
        assert plane.key_file.stat().st_mode & 0o777 == 0o600
        regions = {region["name"]: region["title"] for region in plane.request("GET", "/api/v1/regions")["regions"]}
        assert regions == {"eu-north": "Stockholm", "eu-west": "Ireland", "us-east": "Virginia"}
        clusters = {each["name"]: each["cluster_id"] for each in plane.request("GET", "/api/v1/clusters")["clusters"]}
        assert sorted(clusters) == ["archive", "atlantic", "reports"]
        mirrors = f"/kafka/v3/clusters/{clusters['reports']}/links/from-atlantic/mirrors/orders"
        wait_until(lambda: copied(plane.request("GET", mirrors)), "records that the link has copied")
        payments = [TopicPartition("atlantic.payments", index) for index in range(3)]
        await_records(site.plan.bootstrap("archive"), payments)
        commands.run("kill", "linker-reports-us-east")
        commands.run("resume", "linker-reports-us-east")
        assert {service["state"] for service in commands.status()["services"]} == {"running"}
        commands.up()  # nothing is made twice
    finally:
        commands.down()
    assert commands.pids() == set()


def await_records(bootstrap: str, partitions: list[TopicPartition]) -> None:
    """Wait until each of them has some."""

    async def with_client(client: Client) -> bool:
        found = await list_offsets(client, dict.fromkeys(partitions, At.LATEST))
        return all(isinstance(end, ListedOffset) and end.offset > 0 for end in found.values())

    wait_for(bootstrap, with_client, bool)


def copied(mirror: Any) -> bool:
    """Whether a mirror topic is active, and records of it have come."""
    lags = mirror["mirror_lags"]
    return bool(mirror["mirror_status"] == "ACTIVE" and any(lag["last_source_fetch_offset"] > 0 for lag in lags))


def test_the_built_in_stretched_cluster(tmp_path: Path) -> None:
    printed = Commands(tmp_path, SMALL).run("up", "stretched", "--print")
    commands = Commands(tmp_path, printed)
    try:
        commands.up()
        overview = commands.status()
        assert overview["troubles"] == []
        assert len(overview["nodes"]) == 9
        assert {r["region"]: (r["replicas"], r["in_sync"], r["observers"]) for r in overview["regions"]} == {
            "eu-west": (12, 12, 0),
            "eu-north": (6, 6, 0),
            "us-east": (6, 0, 6),
        }
    finally:
        commands.down()
    assert commands.pids() == set()
