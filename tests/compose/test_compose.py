"""The platform in containers: healthy from nothing, a story through it, and nothing left of it."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from tests.compose.conftest import Stack
from tests.system.ledger import wait_until

RECORDS: Final = 500
LINES: Final = "".join(f"order {number}\n" for number in range(RECORDS))
VALUES: Final = sorted(LINES.split("\n")[:-1])
NODES: Final = {
    "eu-west-1": "eu-west-1:9192",
    "eu-north-1": "eu-north-1:9392",
    "us-east-1": "us-east-1:9492",
    "reports-1": "reports-1:9592",
    "archive-1": "archive-1:9692",
}
"""Where clients of every region find them."""
CROSSINGS: Final = {("eu-west-1", "eu-north-1"): 14, ("eu-west-1", "us-east-1"): 72, ("eu-north-1", "us-east-1"): 86}
"""Milliseconds there and back between two nodes, at the least: twice the latency without its jitter."""
ASK: Final = """
import asyncio, sys, time
from isthmus_model.endpoints import parse_bootstrap
from isthmus_client.connection import Connection
from isthmus_wire.apis import ApiKey

async def main():
    connection = await Connection.open(parse_bootstrap(sys.argv[1])[0], "far")
    times = []
    for _ in range(10):
        started = time.monotonic()
        await connection.exchange(ApiKey.API_VERSIONS, 0, ())
        times.append(time.monotonic() - started)
    print(min(times) * 1000)

asyncio.run(main())
"""
"""The fastest of several responses of a broker, in milliseconds."""


def api_request(stack: Stack, path: str) -> Any:
    """The response of the control plane to its admin, from outside the containers."""
    key = stack.compose("exec", "-T", "api", "cat", "/data/admin-key").strip()
    authorization = base64.b64encode(f"admin:{key}".encode()).decode()
    request = Request(f"http://127.0.0.1:{stack.api_port}{path}", headers={"Authorization": f"Basic {authorization}"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def values(stack: Stack, service: str) -> list[str]:
    """What there is to read of the orders at a broker of a region."""
    told = stack.isthmus(
        service, "consume", "orders", "-b", NODES[service], "--from-beginning", "--until-end", "--format", "%v\\n"
    )
    return sorted(told.splitlines())


@pytest.fixture(scope="module")
def orders(stack: Stack) -> list[str]:
    """Some, written in Ireland once."""
    stack.isthmus("eu-west-1", "produce", "orders", "-b", NODES["eu-west-1"], given=LINES)
    return VALUES


@contextmanager
def cut_off(stack: Stack, region: str, *others: str) -> Iterator[None]:
    """A region that nothing reaches and nothing leaves, within the block."""
    wan = ("exec", "-T", "wan", "python", "/wan.py")
    try:
        for other in others:
            stack.compose(*wan, "cut", region, other)
        yield
    finally:
        stack.compose(*wan, "heal")


def states(stack: Stack) -> dict[str, str]:
    """Of the clusters, as the control plane sees them."""
    return {cluster["name"]: cluster["state"] for cluster in api_request(stack, "/api/v1/topology")["clusters"]}


def test_every_service_is_healthy_and_runs_without_root(stack: Stack) -> None:
    services = [json.loads(line) for line in stack.compose("ps", "--format", "json").splitlines()]
    assert {service["State"] for service in services} == {"running"}
    assert {service["Service"] for service in services if service["Health"] != "healthy"} == {
        "load"
    }  # it has no server
    assert stack.compose("exec", "-T", "linker", "id", "-u").strip() == "10001"


def test_the_control_plane_keeps_the_inventory_in_postgresql(stack: Stack) -> None:
    clusters = api_request(stack, "/api/v1/clusters")["clusters"]
    assert [(cluster["name"], cluster["regions"]) for cluster in clusters] == [
        ("archive", ["eu-north"]),
        ("atlantic", ["eu-north", "eu-west", "us-east"]),
        ("reports", ["us-east"]),
    ]
    table = stack.compose(
        "exec", "-T", "postgres", "psql", "-U", "isthmus", "-Atc", "select name from regions order by name"
    )
    assert table.split() == ["eu-north", "eu-west", "us-east"]
    stack.compose("restart", "api")
    stack.compose("up", "--detach", "--wait", "api")
    assert len(api_request(stack, "/api/v1/clusters")["clusters"]) == 3


@pytest.mark.parametrize(("here", "there"), CROSSINGS)
def test_a_question_to_another_region_takes_the_way_there_and_back(stack: Stack, here: str, there: str) -> None:
    for asker, answerer in ((here, there), (there, here)):
        milliseconds = float(stack.compose("exec", "-T", asker, "python", "-c", ASK, NODES[answerer]))
        assert milliseconds > CROSSINGS[here, there]


def test_payments_are_mirrored_into_the_archive(stack: Stack) -> None:
    read = ("consume", "atlantic.payments", "-b", NODES["archive-1"], "--from-beginning", "-n", "1", "--timeout", "60")
    wait_until(
        lambda: "atlantic.payments" in stack.isthmus("archive-1", "topic", "list", "-b", NODES["archive-1"]),
        "the mirrored topic",
    )
    assert stack.isthmus("archive-1", *read) != ""


def unreachable_brokers(stack: Stack, cluster: str) -> list[int]:
    """Those that the control plane misses."""
    clusters = api_request(stack, "/api/v1/topology")["clusters"]
    brokers = next(one["brokers"] for one in clusters if one["name"] == cluster)
    return [one["broker_id"] for one in brokers if one["unreachable_since_ms"] is not None]


def test_a_region_that_is_cut_off_reads_what_it_has_and_is_missed_by_the_control_plane(
    stack: Stack, orders: list[str]
) -> None:
    wait_until(lambda: values(stack, "reports-1") == orders, "all orders in the reports")
    with cut_off(stack, "us-east", "eu-west", "eu-north"):
        assert values(stack, "reports-1") == orders
        wait_until(lambda: states(stack)["reports"] == "UNREACHABLE", "the reports unreachable")
        wait_until(
            lambda: unreachable_brokers(stack, "atlantic") == [4], "the cluster's broker beyond the cut unreachable"
        )
        assert states(stack) == {"archive": "UP", "atlantic": "UP", "reports": "UNREACHABLE"}
    wait_until(lambda: set(states(stack).values()) == {"UP"}, "every cluster reachable")


def test_orders_are_read_near_by_and_go_on_in_the_other_cluster_without_their_source(
    stack: Stack, orders: list[str]
) -> None:
    assert values(stack, "us-east-1") == orders
    wait_until(lambda: values(stack, "reports-1") == orders, "all orders in the reports")
    mirror = ("link", "mirror")
    with pytest.raises(AssertionError, match="from-atlantic"):
        stack.isthmus("reports-1", "produce", "orders", "-b", NODES["reports-1"], given="written too early\n")
    stack.compose("kill", "eu-west-1", "eu-west-2", "eu-north-1", "us-east-1", "linker")
    stack.isthmus("reports-1", *mirror, "failover", "orders", "-b", NODES["reports-1"])
    (told,) = json.loads(stack.isthmus("reports-1", *mirror, "list", "-b", NODES["reports-1"], "-o", "json"))
    assert told["state"] == "STOPPED"
    stack.isthmus("reports-1", "produce", "orders", "-b", NODES["reports-1"], given="written after the failover\n")
    assert values(stack, "reports-1") == sorted([*orders, "written after the failover"])
    stack.compose("up", "--detach", "--wait")
    assert values(stack, "eu-north-1") == orders
