"""The network between the regions of the compose file: the only process that is in the network of every region.

In the network of one region it has the names of the nodes of all other regions, so that traffic between regions goes through it.

    wan.py serve                         relay until stopped
    wan.py cut eu-west us-east           drop all traffic; `heal` with or without regions undoes it
    wan.py state                         every direction, and the bytes it has carried
"""

import asyncio
import json
import sys
from pathlib import Path

from isthmus_topology.description import Link, Topology, Weather
from isthmus_topology.plan import Relay
from isthmus_topology.reading import TopologyRefused
from isthmus_topology.wan.control import send_request
from isthmus_topology.wan.server import serve

REGIONS = ("eu-west", "eu-north", "us-east")
LINKS = (
    Link(("eu-west", "eu-north"), Weather(latency_ms=8, jitter_ms=1, bandwidth_mbit=1000)),
    Link(("eu-west", "us-east"), Weather(latency_ms=38, jitter_ms=2, bandwidth_mbit=500)),
    Link(("eu-north", "us-east"), Weather(latency_ms=45, jitter_ms=2, bandwidth_mbit=500)),
)
NODES = {
    "eu-west-1": ("eu-west", (9192, 9193)),
    "eu-west-2": ("eu-west", (9292,)),
    "eu-north-1": ("eu-north", (9392, 9393)),
    "us-east-1": ("us-east", (9492, 9493)),
    "reports-1": ("us-east", (9592,)),
    "archive-1": ("eu-north", (9692,)),
}
"""Region and ports of each node. In its own network a node is also NODE.home, because the plain names are ambiguous to this process."""
CONTROL = Path("/tmp/wan.socket")


def relays() -> list[Relay]:
    """Relays from every region to the nodes of the others."""
    return [
        Relay(near, region, port, port, listen=f"wan.{near}", host=f"{node}.home")
        for node, (region, ports) in NODES.items()
        for near in REGIONS
        if near != region
        for port in ports
    ]


def main(command: str, *between: str) -> None:
    """Run the emulator, or send it a request."""
    if command == "serve":
        asyncio.run(serve(Topology(REGIONS, LINKS, ()), relays(), CONTROL))
        return
    named = {"from": between[0], "to": between[1]} if len(between) == 2 else {}
    try:
        print(json.dumps(send_request(CONTROL, {"op": command, **named})))
    except TopologyRefused as refusal:
        raise SystemExit(str(refusal)) from None


if __name__ == "__main__":
    main(*sys.argv[1:])
