"""The page of a streams group."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect

from tests.conformance.oracle.talk import Talk, Target
from tests.conformance.streams import Application
from tests.console.pages import EVENTUALLY, go, sign_in
from tests.console.site import Site


def test_a_streams_group_shows_its_topology_and_the_tasks_of_its_members(
    page: Page, site: Site, tmp_path: Path
) -> None:
    host, port = site.bootstrap("copy", "east").split(":")
    talk = Talk(Target(host, int(port), tmp_path))
    app = Application(talk, "streams-app")
    sign_in(page, site)
    go(page, "Clusters", "copy", "Groups", "streams-app")
    expect(page.get_by_text("Group epoch")).to_be_visible()
    members = page.get_by_role("table", name="Members").get_by_role("row").filter(has_text="0:[0,1] 1:[0,1]")
    expect(members).to_have_count(1, timeout=EVENTUALLY)
    expect(members).to_contain_text("reached")
    counts = page.get_by_role("table", name="Topology").get_by_role("row").filter(has_text=app.changelog)
    expect(counts).to_contain_text(app.repartition)
    lags = page.get_by_role("table", name="Lag by partition")
    expect(lags.get_by_role("row").filter(has_text=app.input)).to_have_count(2, timeout=EVENTUALLY)
    page.set_viewport_size(ViewportSize(width=390, height=844))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    app.leave()
    talk.close()
    expect(page.get_by_text("No member")).to_be_visible(timeout=EVENTUALLY)
    expect(counts).to_contain_text(app.repartition)
