"""The scripts, one file per group of APIs. Each group gets a fresh broker and runs its exchanges in the order of its file."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final

from tests.conformance.oracle.talk import Talk

Script = Callable[[Talk], Any]


class Group:
    """The exchanges of one file, and the broker settings they want beside `COMMON`."""

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, roles: Sequence[str] = (), racks: Sequence[str] = ()
    ) -> None:
        """With `roles` it is a cluster of so many nodes, else one node."""
        self.settings = {**({} if roles else {"node.id": "1"}), **COMMON, **(settings or {})}
        self.roles = roles
        self.racks = racks
        self.scripts: dict[str, Script] = {}

    def settings_in(self, directory: Path) -> dict[str, str]:
        """The settings, with folders below `directory` where a value says so."""
        return {key: value.replace("DIRECTORY", str(directory)) for key, value in self.settings.items()}

    def exchange(self, script: Script) -> Script:
        """Add a script under its name."""
        name = script.__name__.replace("_", " ").strip()
        assert name not in self.scripts, f"two exchanges are called {name}"
        self.scripts[name] = script
        return script


COMMON: Final = {
    "offsets.topic.num.partitions": "3",
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
}


def groups() -> dict[str, Group]:
    """All groups by name."""
    return {module.name: import_module(f"{__name__}.{module.name}").GROUP for module in iter_modules(__path__)}
