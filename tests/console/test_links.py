"""A link from its form to its end: errors at their fields, mirrored topics, pause, resume, deletion."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.console.pages import EVENTUALLY, go, sign_in
from tests.console.site import Site


def _form(page: Page, site: Site) -> Locator:
    """The dialog that makes a link into the second cluster."""
    sign_in(page, site)
    go(page, "Clusters", "copy", "Links")
    page.get_by_role("button", name="Create link").click()
    return page.get_by_role("dialog", name="Create a link into copy")


def test_what_is_wrong_with_a_link_stands_at_its_field(page: Page, site: Site) -> None:
    form = _form(page, site)
    bootstrap = form.get_by_label("Bootstrap servers of the source")
    form.get_by_label("Name").fill("not a name")
    bootstrap.fill("nonsense")
    form.get_by_role("button", name="Check only").click()
    expect(bootstrap).to_have_attribute("aria-invalid", "true")
    expect(bootstrap).to_have_accessible_description(re.compile("it must name brokers of the source as host:port"))
    bootstrap.fill("127.0.0.1:1")
    form.get_by_role("button", name="Check only").click()
    expect(bootstrap).to_have_accessible_description(
        re.compile("The source cannot be queried at 127.0.0.1:1"), timeout=EVENTUALLY
    )
    form.get_by_label("Source", exact=True).select_option(label="main")
    form.get_by_role("button", name="Create", exact=True).click()
    expect(form.get_by_label("Name")).to_have_accessible_description(re.compile("Link name is invalid"))
    form.get_by_label("Name").fill("second")
    form.get_by_text("More settings").click()
    form.get_by_label("Prefix").fill("longer than it may be")
    form.get_by_role("button", name="Check only").click()
    expect(form.get_by_label("Prefix")).to_have_accessible_description(re.compile("at most 12 characters"))
    form.get_by_label("Prefix").fill("eu.")
    form.get_by_label("Other configs").fill("no.such=1")
    form.get_by_role("button", name="Check only").click()
    expect(form.get_by_label("Other configs")).to_have_accessible_description(re.compile("no.such"))
    expect(form.get_by_label("Other configs")).to_be_focused()  # wherever the form was scrolled to
    form.get_by_label("Other configs").fill("replica.fetch.wait.max.ms=100")
    form.get_by_role("button", name="Check only").click()
    expect(form.get_by_role("status")).to_contain_text("the link can be created")
    expect(form.get_by_role("alert")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("table", name="Links").get_by_role("row").filter(has_text="second")).to_have_count(0)


def test_a_link_lives_from_its_form_to_its_end(page: Page, site: Site) -> None:
    site.run("topic", "create", "events", "-p", "1", "-r", "1", "-b", site.bootstrap("main", "east"))
    form = _form(page, site)
    form.get_by_label("Name").fill("second")
    form.get_by_label("Source", exact=True).select_option(label="main")
    form.get_by_text("More settings").click()
    form.get_by_label("Prefix").fill("eu.")
    form.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="second", level=1)).to_be_visible()
    state = page.locator("dl.facts > div").filter(has_text="State")
    expect(state).to_contain_text("active", timeout=EVENTUALLY)

    page.get_by_role("button", name="Mirror a topic").click()
    dialog = page.get_by_role("dialog", name="Mirror a topic through second")
    dialog.get_by_label("Topic of the source").fill("no-such-topic")
    dialog.get_by_role("button", name="Mirror it").click()
    expect(dialog.get_by_label("Topic of the source")).to_have_accessible_description(
        re.compile("no-such-topic"), timeout=EVENTUALLY
    )
    dialog.get_by_label("Topic of the source").fill("events")
    dialog.get_by_role("button", name="Mirror it").click()
    expect(dialog).to_have_count(0)
    mirror = page.get_by_role("table", name="Mirror topics").get_by_role("row").filter(has_text="eu.events")
    expect(mirror).to_contain_text("active", timeout=EVENTUALLY)
    site.produce("main", "events", 50)
    expect(mirror).to_contain_text("0 records", timeout=EVENTUALLY)

    page.get_by_role("button", name="Pause the link…").click()
    dialog = page.get_by_role("dialog", name="Pause second")
    expect(dialog).to_contain_text("Nothing of 1 mirror topic is copied until it is resumed")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(state).to_contain_text("paused", timeout=EVENTUALLY)
    expect(mirror).to_contain_text("link paused", timeout=EVENTUALLY)
    page.get_by_role("button", name="Resume the link").click()
    expect(state).to_contain_text("active", timeout=EVENTUALLY)
    expect(mirror).not_to_contain_text("paused", timeout=EVENTUALLY)

    page.get_by_role("button", name="Delete the link…").click()
    dialog = page.get_by_role("dialog", name="Delete second")
    delete = dialog.get_by_role("button", name="Delete it")
    dialog.get_by_label("Type second to continue").fill("second")
    expect(dialog.get_by_label("Fail over 1 topic")).to_be_visible()
    expect(delete).to_be_disabled()  # a topic is still copied
    dialog.get_by_label("Fail over 1 topic").check()
    delete.click()
    links = page.get_by_role("table", name="Links")
    expect(links.get_by_role("row").filter(has_text="from-main")).to_be_visible()
    expect(links.get_by_role("row").filter(has_text="second")).to_have_count(0, timeout=EVENTUALLY)
    site.produce("copy", "eu.events", 1)  # which the cluster refused while the topic was a mirror
    go(page, "Audit")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("delete kafka link")
