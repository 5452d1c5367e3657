"""`isthmus node`: run one node in the foreground."""

import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from isthmus_broker.core.config.node_config import NodeConfig
    from isthmus_broker.edge.assembly.node import Node
    from isthmus_linker.edge.main import LinkerRole

_OPERATING_ERROR: Final = 1
# Objects of a request are freed by their reference counts; cycles are collected rarely.
_GC_THRESHOLDS: Final = (50_000, 20, 100)

ConfigOption = Annotated[Path | None, typer.Option("-c", "--config", help="A server.properties file.")]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, over the file and the environment; may be repeated."),
]


def node(config: ConfigOption = None, settings: SettingsOption = None) -> None:
    """Run a node until SIGTERM or Ctrl-C. Without settings it is a cluster of its own on 127.0.0.1:9092."""
    gc.disable()  # objects of the start-up are never freed; `_serve` turns collection on again
    from isthmus_broker.core.config.node_config import resolve_node
    from isthmus_broker.core.config.values import ConfigRefused

    from isthmus_cli.settings import node_layers

    logging.basicConfig(
        level=os.environ.get("ISTHMUS_LOG_LEVEL", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    try:
        resolved = resolve_node(node_layers(config, settings or []))
    except ConfigRefused as refusal:
        print(f"isthmus node: {refusal}", file=sys.stderr)
        raise typer.Exit(_OPERATING_ERROR) from refusal
    import uvloop

    raise typer.Exit(uvloop.run(_serve(resolved)))


async def _serve(config: "NodeConfig") -> int:
    from isthmus_broker.core.config.values import ConfigRefused
    from isthmus_broker.edge.assembly.lifecycle import RefusedByController
    from isthmus_broker.edge.assembly.node import Node, StartTimedOut
    from isthmus_broker.edge.storage.log_dir import Inconsistent, Locked
    from isthmus_wire.errors import CorruptBatch

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    stop = loop.create_task(stopping.wait())
    try:
        running = Node(config)
        loop.set_exception_handler(running.unhandled)
        fault = loop.create_task(running.failed())
        start = loop.create_task(running.start())
        await asyncio.wait((start, fault, stop), return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            return _ended_early(running)
        start.result()
    except (ConfigRefused, CorruptBatch, Inconsistent, Locked, OSError, RefusedByController, StartTimedOut) as problem:
        print(f"isthmus node: {problem}", file=sys.stderr)
        return _OPERATING_ERROR
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    linker = _linker_of(running) if config.is_linker else None
    print(f"ready {running.addresses}", flush=True)
    await asyncio.wait((fault, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    fault.cancel()
    if linker is not None:
        await linker.stop()
    await running.stop()
    if running.fault is not None:
        print(f"isthmus node: stopped after an error: {running.fault}", file=sys.stderr)
        return _OPERATING_ERROR
    return 0


def _linker_of(running: "Node") -> "LinkerRole":
    """A worker for the links of the node's cluster, a client like any other."""
    from isthmus_linker.edge.main import LinkerRole

    role = LinkerRole(running.own_endpoint())
    running.observation.register(role.collector)
    return role


def _ended_early(running: "Node") -> int:
    """The node failed or was stopped before it served: nothing needs a clean shutdown."""
    if running.fault is None:
        return 0
    print(f"isthmus node: stopped after an error: {running.fault}", file=sys.stderr)
    return _OPERATING_ERROR
