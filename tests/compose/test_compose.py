"""The platform in containers: healthy from nothing, a story through it, and nothing left of it."""

import base64
import json
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from tests.compose.conftest import Stack
from tests.system.ledger import wait_until

RECORDS: Final = 500
LINES: Final = "".join(f"order {number}\n" for number in range(RECORDS))
VALUES: Final = sorted(LINES.split("\n")[:-1])


def asked(stack: Stack, path: str) -> Any:
    """The control plane's answer to its admin, from outside of the containers."""
    key = stack.compose("exec", "-T", "api", "cat", "/data/admin-key").strip()
    authorization = base64.b64encode(f"admin:{key}".encode()).decode()
    request = Request(f"http://127.0.0.1:{stack.api_port}{path}", headers={"Authorization": f"Basic {authorization}"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def values(stack: Stack, service: str) -> list[str]:
    """What there is to read of the orders at a broker of a region."""
    told = stack.isthmus(
        service, "consume", "orders", "-b", f"{service}:9092", "--from-beginning", "--until-end", "--format", "%v\\n"
    )
    return sorted(told.splitlines())


def test_every_service_is_healthy_and_runs_as_nobody_special(stack: Stack) -> None:
    services = [json.loads(line) for line in stack.compose("ps", "--format", "json").splitlines()]
    assert {service["State"] for service in services} == {"running"}
    assert {service["Service"] for service in services if service["Health"] != "healthy"} == {
        "load"
    }  # it serves nobody
    assert stack.compose("exec", "-T", "linker", "id", "-u").strip() == "10001"


def test_the_control_plane_keeps_the_inventory_in_postgresql(stack: Stack) -> None:
    clusters = asked(stack, "/api/v1/clusters")["clusters"]
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
    assert len(asked(stack, "/api/v1/clusters")["clusters"]) == 3


def test_payments_are_mirrored_into_the_archive(stack: Stack) -> None:
    read = ("consume", "atlantic.payments", "-b", "archive-1:9092", "--from-beginning", "-n", "1", "--timeout", "60")
    wait_until(
        lambda: "atlantic.payments" in stack.isthmus("archive-1", "topic", "list", "-b", "archive-1:9092"),
        "the mirrored topic",
    )
    assert stack.isthmus("archive-1", *read) != ""


def test_orders_are_read_near_by_and_go_on_in_the_other_cluster_without_their_source(stack: Stack) -> None:
    stack.isthmus("eu-west-1", "produce", "orders", "-b", "eu-west-1:9092", given=LINES)
    assert values(stack, "us-east-1") == VALUES
    wait_until(lambda: values(stack, "reports-1") == VALUES, "all orders in the reports")
    mirror = ("link", "mirror")
    with pytest.raises(AssertionError, match="from-atlantic"):
        stack.isthmus("reports-1", "produce", "orders", "-b", "reports-1:9092", given="written too early\n")
    stack.compose("kill", "eu-west-1", "eu-west-2", "eu-north-1", "us-east-1", "linker")
    stack.isthmus("reports-1", *mirror, "failover", "orders", "-b", "reports-1:9092")
    (told,) = json.loads(stack.isthmus("reports-1", *mirror, "list", "-b", "reports-1:9092", "-o", "json"))
    assert told["state"] == "STOPPED"
    stack.isthmus("reports-1", "produce", "orders", "-b", "reports-1:9092", given="written after the failover\n")
    assert values(stack, "reports-1") == sorted([*VALUES, "written after the failover"])
    stack.compose("up", "--detach", "--wait")
    assert values(stack, "eu-north-1") == VALUES
