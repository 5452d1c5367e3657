"""A site for each module, and a page of the system's Chromium for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.console.pages import SOON
from tests.console.site import Site, running_site

_SIGNED_OUT: Final = "401 (Unauthorized)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("console")) as site:
        yield site


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "scripts/debian-packages browser installs Chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page without a signed-in user; browser errors, such as violations of the page's own policy, fail the test."""
    context = browser.new_context(viewport=ViewportSize(width=1280, height=900))
    page = context.new_page()
    page.set_default_timeout(SOON)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto(site.url)
    yield page
    context.close()
    assert [one for one in complaints if _SIGNED_OUT not in one and "Failed to load resource" not in one] == []
