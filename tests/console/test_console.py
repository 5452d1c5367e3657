"""Signing in, the map while the WAN is cut, mirror topics promoted and failed over by their dialogs, a topic placed, a phone."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.console.pages import EVENTUALLY, go, region, sign_in
from tests.console.site import Site


def test_the_key_opens_the_console_and_signing_out_closes_it(page: Page, site: Site) -> None:
    page.get_by_label("Admin key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    sign_in(page, site)
    expect(region(page, "west")).to_contain_text("Ireland")
    expect(region(page, "west")).to_contain_text("main")
    # The east has no coordinates: it has a place anyway.
    expect(region(page, "east")).to_contain_text("copy")
    page.reload()
    expect(region(page, "west")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin key")).to_be_visible()


def test_an_unreachable_region_and_its_return_are_shown_within_seconds(page: Page, site: Site) -> None:
    sign_in(page, site)
    east, arc = region(page, "east"), page.locator('g.arc.link[data-flow*="from-main"]').first
    expect(east).to_have_attribute("data-state", "reachable", timeout=EVENTUALLY)
    expect(arc).to_have_attribute("data-moving", "true", timeout=EVENTUALLY)
    expect(page.locator("g.arc.observer").first).to_have_attribute("data-moving", "true", timeout=EVENTUALLY)
    site.run("wan", "cut", "west", "east")
    try:
        expect(east).to_have_attribute("data-state", "unreachable", timeout=EVENTUALLY)
        expect(page.get_by_role("alert")).to_contain_text("east is unreachable: ")
        expect(page.get_by_role("alert")).to_contain_text("copy unreachable since ", timeout=EVENTUALLY)
        expect(page.get_by_role("alert")).to_contain_text("main: 1 of 1 broker unreachable since ")
        expect(page.get_by_role("alert")).to_contain_text("main: 1 of 1 broker fenced", timeout=EVENTUALLY)
        expect(arc).to_have_attribute("data-moving", "false")
        expect(arc).to_have_class(re.compile("tone-bad"))
        expect(page.get_by_role("row").filter(has_text="from-main").first).to_contain_text("stale, last update ")
        expect(region(page, "west")).to_have_attribute("data-state", "reachable")
    finally:
        site.run("wan", "heal")
    expect(east).to_have_attribute("data-state", "reachable", timeout=EVENTUALLY)
    expect(arc).to_have_attribute("data-moving", "true", timeout=EVENTUALLY)


def test_pages_say_that_they_are_stale_without_events(page: Page, site: Site) -> None:
    sign_in(page, site)
    freshness = page.locator(".freshness")
    site.run("pause", "api")
    try:
        expect(freshness).to_have_attribute("data-state", "stale", timeout=EVENTUALLY)
        expect(freshness).to_contain_text("reconnecting")
    finally:
        site.run("resume", "api")
    expect(freshness).to_have_attribute("data-state", "live", timeout=EVENTUALLY)


def open_link(page: Page, site: Site) -> Locator:
    """The link's page, once its mirror topics have everything; returns their table."""
    sign_in(page, site)
    go(page, "Clusters", "copy", "Links", "from-main")
    return page.get_by_role("table", name="Mirror topics")


def test_a_mirror_topic_is_promoted_by_its_dialog(page: Page, site: Site) -> None:
    site.produce("main", "orders", 100)
    orders = open_link(page, site).get_by_role("row").filter(has_text="orders")
    expect(orders).to_contain_text("active")
    expect(orders).to_contain_text("0 records", timeout=EVENTUALLY)
    orders.get_by_role("checkbox").check()
    page.get_by_role("button", name="Promote…").click()
    dialog = page.get_by_role("dialog", name="Promote orders")
    expect(dialog).to_contain_text("clients may write here from then on")
    expect(dialog).to_contain_text("No record is missing")
    expect(dialog.get_by_role("row").filter(has_text="orders")).to_contain_text("can be done")
    dialog.get_by_role("button", name="Promote", exact=True).click()
    expect(dialog).to_contain_text("1 of 1 done", timeout=EVENTUALLY)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(orders).to_contain_text("stopped")
    expect(orders.get_by_role("checkbox")).to_be_disabled()
    site.produce("copy", "orders", 1)  # which the cluster refused while the topic was a mirror
    go(page, "Audit")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("create task")


def test_a_failover_wants_the_name_of_the_topic(page: Page, site: Site) -> None:
    payments = open_link(page, site).get_by_role("row").filter(has_text="payments")
    payments.get_by_role("checkbox").check()
    page.get_by_role("button", name="Fail over…").click()
    dialog = page.get_by_role("dialog", name="Fail over payments")
    expect(dialog).to_contain_text("can be done")
    button = dialog.get_by_role("button", name="Fail over now")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type payments to continue").fill("payment")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type payments to continue").fill("payments")
    button.click()
    expect(dialog).to_contain_text("1 of 1 done", timeout=EVENTUALLY)
    dialog.get_by_role("button", name="Close").click()
    expect(payments).to_contain_text("stopped")
    go(page, "Tasks")
    expect(page.get_by_role("table", name="Tasks")).to_contain_text("alter-mirrors")


def test_a_topic_is_placed_and_its_configs_are_changed(page: Page, site: Site) -> None:
    sign_in(page, site)
    go(page, "Clusters", "main")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("placed")
    dialog.get_by_label("Synchronous replicas in east").fill("0")
    dialog.get_by_label("Synchronous replicas in west").fill("2")
    dialog.get_by_label("Observers in east").fill("1")
    expect(dialog).to_contain_text("2 synchronous replicas in 1 region.")
    dialog.get_by_role("button", name="Check only").click()
    expect(dialog.get_by_role("alert")).to_be_visible()  # the west has one broker
    dialog.get_by_label("Synchronous replicas in west").fill("1")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="placed")).to_be_visible()
    expect(page.get_by_label("broker 1: leader")).to_have_count(6)
    expect(page.get_by_label(re.compile("^broker 2: observer"))).to_have_count(6)
    page.get_by_label("Search configs").fill("retention.ms")
    page.get_by_role("button", name="Change retention.ms", exact=True).click()
    page.get_by_label("retention.ms", exact=True).fill("60000")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="60000")).to_contain_text("set here")
    go(page, "main")
    expect(
        page.get_by_role("table", name="Topics by region").get_by_role("row").filter(has_text="placed")
    ).to_contain_text("○6")


def test_every_page_fits_a_phone(page: Page, site: Site) -> None:
    page.set_viewport_size(ViewportSize(width=390, height=844))
    sign_in(page, site)
    expect(region(page, "west")).to_be_visible()
    go(page, "Clusters", "copy")
    copy = page.url
    for path in ("", "/brokers", "/groups", "/links", "/links/from-main", "/topics/orders", "/mirrors", "/balancer"):
        page.goto(f"{copy}{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".loading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
