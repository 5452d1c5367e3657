"""Settings of all tests, and how they share the workers of pytest-xdist."""

import os
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# A slow example on a busy machine is no defect; pytest-timeout bounds each test.
settings.register_profile("isthmus", deadline=None)
settings.load_profile("isthmus")

_HERE: Final = Path(__file__).parent
_LONGEST_FIRST: Final = ("system/test_docs.py", "system/test_mirror_transactions.py", "system")
"""Files and folders that wait for processes. They begin first, so that no worker is busy with one after all others are done."""
_LAST: Final = "sim/"
"""Its tests are independent and short: at the end, each goes to the next free worker."""


def pytest_configure(config: pytest.Config) -> None:
    """Start the processes of tests as a user's installation does; not the workers, which need the tests' tools."""
    is_controller = config.getoption("numprocesses", None) is not None and not hasattr(config, "workerinput")
    if not is_controller:
        hidden, before = str(_HERE / "without_hypothesis"), os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (hidden, before)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long files first; xdist hands out files in this order."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    path = item.path.relative_to(_HERE).as_posix()
    others = len(_LONGEST_FIRST)
    if path.startswith(_LAST):
        return others + 1
    return next((rank for rank, prefix in enumerate(_LONGEST_FIRST) if path.startswith(prefix)), others)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give a file to one worker, for its fixtures; the simulations test by test."""
    return _Scheduling(config, log)


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # no types
    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(f"{_HERE.name}/{_LAST}") else nodeid.partition("::")[0]
