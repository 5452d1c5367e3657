"""`isthmus node`: run one node in the foreground."""

import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

EMBEDDED_DATA: Final = "data"
_OPERATING_ERROR: Final = 1
_USAGE: Final = 2


def node(
    config: Annotated[Path | None, typer.Option("-c", "--config", help="A server.properties file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; over file and environment.")
    ] = None,
) -> None:
    """Run a node until SIGTERM or Ctrl-C. Without settings it is a cluster of its own on 127.0.0.1:9092."""
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
        raise SystemExit(f"isthmus node: {refusal}") from refusal
    sys.exit(_run(resolved))


def _run(config: object) -> int:
    import uvloop
    from isthmus_broker.core.config.node_config import NodeConfig

    assert isinstance(config, NodeConfig)
    gc.set_threshold(50_000, 20, 100)
    return uvloop.run(_serve(config))


async def _serve(config: "object") -> int:
    from isthmus_broker.core.config.node_config import NodeConfig
    from isthmus_broker.edge.disk.log_dir import Inconsistent, Locked
    from isthmus_broker.edge.node import Node

    assert isinstance(config, NodeConfig)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        running = Node(config)
        await running.start()
    except (Inconsistent, Locked, OSError) as problem:
        print(f"isthmus node: {problem}", file=sys.stderr)
        return _OPERATING_ERROR
    gc.collect()
    gc.freeze()
    print(f"ready {running.addresses}", flush=True)
    fault = loop.create_task(running.failed())
    stop = loop.create_task(stopping.wait())
    await asyncio.wait((fault, stop), return_when=asyncio.FIRST_COMPLETED)
    await running.stop()
    stop.cancel()
    if fault.done():
        print(f"isthmus node: stopped by a fault: {fault.result()}", file=sys.stderr)
        return _OPERATING_ERROR
    fault.cancel()
    return 0
