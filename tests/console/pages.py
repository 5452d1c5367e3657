"""What a person does on any page of the console."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Locator, Page, expect

from tests.console.site import Site

SOON: Final = 30_000
EVENTUALLY: Final = 120_000
"""Milliseconds: a broker behind a cut is fenced when its session ends, long after the control plane has noticed."""


def sign_in(page: Page, site: Site) -> None:
    page.get_by_label("Admin key").fill(site.key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".freshness")).to_have_attribute("data-state", "live", timeout=SOON)


def go(page: Page, *steps: str) -> None:
    """From link to link, as a person would."""
    for step in steps:
        page.get_by_role("main").or_(page.get_by_role("navigation")).get_by_role(
            "link", name=step, exact=True
        ).first.click()


def region(page: Page, name: str) -> Locator:
    return page.locator(f'[data-region="{name}"]')
