"""`isthmus demo`: a tour of the platform on the running topology of `isthmus up`."""

from __future__ import annotations

import asyncio

from isthmus_cli.session import fail
from isthmus_cli.topology import DEFAULT_DIRECTORY, DirectoryOption, opened


def demo(directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Write, read in the nearest region, lose a region, fail over, look at the lag: a tour of one minute on the built-in platform."""
    from isthmus_client.errors import ClientError
    from isthmus_topology.demo import run_demo
    from isthmus_topology.reading import TopologyRefused
    from rich.console import Console

    console = Console(highlight=False)
    chapters = 0

    def print_chapter(heading: str, outcome: str) -> None:
        nonlocal chapters
        if heading:
            chapters += 1
            console.print(f"\n[bold]{chapters}. {heading}[/bold]")
        console.print(f"   {outcome}")

    try:
        asyncio.run(run_demo(opened(directory), print_chapter))
    except (ClientError, TopologyRefused, OSError) as problem:
        fail(str(problem))
