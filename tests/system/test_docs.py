"""The commands of the operator's guide do what it says: every page's blocks marked `sh` run as one script.

The pages are written for the built-in platform as `make up` starts it. Here it has other ports, and the commands are changed to them.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.ports import free_ports
from tests.process import ISTHMUS
from tests.system import site

DOCS: Final = Path(__file__).parents[2] / "docs"
BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BASE_PORT: Final = 19092
API_PORT: Final = 8080
PLATFORM_PORTS: Final = 100
SECONDS: Final = 400
PAGES: Final = sorted(page.name for page in DOCS.glob("*.md") if BLOCK.search(page.read_text()))


class Platform(site.Site):
    """The built-in platform on other ports."""

    def __init__(self, directory: Path) -> None:
        built_in = subprocess.run([ISTHMUS, "up", "--print"], capture_output=True, text=True, check=True).stdout
        (api,) = free_ports(1)
        super().__init__(directory, site.with_console(built_in, api))
        self._ports = {API_PORT: api}

    def adapted(self, script: str) -> str:
        """A page's commands with this platform's ports, and with free ones for the nodes that a page starts."""
        return re.sub(r"127\.0\.0\.1:(\d+)", lambda match: f"127.0.0.1:{self._port(int(match[1]))}", script)

    def _port(self, number: int) -> int:
        if BASE_PORT <= number < BASE_PORT + PLATFORM_PORTS:
            return number - BASE_PORT + self.base
        if number not in self._ports:
            (self._ports[number],) = free_ports(1)
        return self._ports[number]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    running = Platform(tmp_path_factory.mktemp("guide"))
    try:
        running.up()
        yield running
    finally:
        running.down()


def test_the_pages_have_commands() -> None:
    assert len(PAGES) >= 8


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(platform: Platform, page: str, tmp_path: Path) -> None:
    script = platform.adapted("\n".join(BLOCK.findall((DOCS / page).read_text())))
    (tmp_path / ".isthmus").symlink_to(platform.directory)
    path = f"{Path(ISTHMUS).parent}:{os.environ['PATH']}"
    output = tmp_path / "output"
    with output.open("wb") as file:
        page_run = subprocess.Popen(
            ["bash", "-euxo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        status = page_run.wait(SECONDS)
    finally:
        with suppress(ProcessLookupError):  # a page that failed leaves what it runs in the background
            os.killpg(page_run.pid, signal.SIGKILL)
    assert status == 0, output.read_text()[-9000:]
