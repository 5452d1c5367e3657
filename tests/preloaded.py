"""What nodes, linkers and mirrors import to start and to serve requests. The server that forks them (tests/forks.py) imports it once."""

import gc
import sys
from importlib import import_module

sys.modules["hypothesis"] = None  # type: ignore[assignment]  # as for all processes that tests start: see tests/without_hypothesis
for _name in (
    "isthmus_cli.main",
    "isthmus_broker.edge.assembly.lifecycle",
    "isthmus_broker.edge.assembly.node",
    "isthmus_broker.core.group.shard",
    "isthmus_broker.core.transaction.shard",
    "isthmus_linker.edge.main",
    "isthmus_mirror.edge.main",
    "uvloop",
):
    import_module(_name)
_table = import_module("isthmus_broker.edge.requests.table")
for _side in _table.Side:
    for _key in _table.served(_side):
        _table.file_of(_key, _side)
gc.collect()
gc.freeze()  # pages that the collector does not touch stay shared
