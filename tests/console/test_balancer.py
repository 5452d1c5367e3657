"""A plan of the balancer: the brokers before and after, and carrying it out, followed to its end."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.console.pages import EVENTUALLY, go, sign_in
from tests.console.site import Site

PARTITIONS = 12


def _plan(page: Page) -> Locator:
    """The table of brokers of a plan that is made now."""
    page.get_by_role("button", name="Make a plan").click()
    brokers = page.get_by_role("table", name="Brokers before and after").get_by_role("row")
    expect(brokers).to_have_count(3, timeout=EVENTUALLY)
    return brokers


def test_a_plan_is_shown_and_carried_out(page: Page, site: Site) -> None:
    bootstrap = site.bootstrap("main", "west")
    everything_on_one = ",".join(["1"] * PARTITIONS)
    site.run("topic", "create", "skewed", "--replica-assignment", everything_on_one, "-b", bootstrap)
    sign_in(page, site)
    go(page, "Clusters", "main", "Balancer")
    brokers = _plan(page)
    expect(page.get_by_role("table", name="Goals")).to_contain_text("racks")
    moves = page.get_by_role("table", name="Moves").get_by_role("row").filter(has_text="skewed-")
    expect(moves.first).to_contain_text("crosses regions")

    page.get_by_role("button", name="Carry it out…").click()
    dialog = page.get_by_role("dialog", name="Carry out the plan")
    shown = re.search(r"(\d+ partitions) and .* move, a few at a time", dialog.inner_text())
    assert shown is not None
    dialog.get_by_label("MB a second for each broker").fill("0")
    dialog.get_by_role("button", name="Begin").click()
    expect(dialog.get_by_role("progressbar", name="Progress")).to_be_visible()
    expect(dialog.get_by_role("status")).to_contain_text("execute-plan: 1 of 1 done", timeout=EVENTUALLY)
    items = dialog.get_by_role("table", name="Items of the task")
    expect(items.get_by_role("row").filter(has_text="done")).to_contain_text(f"{shown[1]} moved")
    dialog.get_by_role("button", name="Close").click()

    expect(brokers).to_have_count(3)
    go(page, "Tasks")
    expect(page.get_by_role("table", name="Tasks").get_by_role("row").filter(has_text="execute-plan")).to_contain_text(
        "done"
    )
    go(page, "Clusters", "main", "Balancer")
    _plan(page)
    expect(page.get_by_role("heading", name="Nothing to move")).to_be_visible()
