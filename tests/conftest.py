"""Settings of all tests, and how they share the workers of pytest-xdist."""

import os
from collections import deque
from itertools import groupby
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
_SIMULATIONS: Final = f"{_HERE.name}/sim/"


def pytest_configure(config: pytest.Config) -> None:
    """Start the processes of tests as a user's installation does; not the workers, which need the tests' tools."""
    is_controller = config.getoption("numprocesses", None) is not None and not hasattr(config, "workerinput")
    if not is_controller:
        hidden, before = str(_HERE / "without_hypothesis"), os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (hidden, before)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, and a simulation after each: xdist hands them out in this order, and processors have work while others wait."""
    simulations = deque(item for item in items if item.nodeid.startswith(_SIMULATIONS))
    others = sorted((item for item in items if not item.nodeid.startswith(_SIMULATIONS)), key=_rank)
    items.clear()
    for _, file in groupby(others, lambda item: item.path):
        items += file
        if simulations:
            items.append(simulations.popleft())
    items += simulations


def _rank(item: pytest.Item) -> int:
    path = item.path.relative_to(_HERE).as_posix()
    return next((rank for rank, prefix in enumerate(_LONGEST_FIRST) if path.startswith(prefix)), len(_LONGEST_FIRST))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give a file to one worker, for its fixtures; the simulations test by test."""
    return _Scheduling(config, log)


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # no types
    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(_SIMULATIONS) else nodeid.partition("::")[0]
