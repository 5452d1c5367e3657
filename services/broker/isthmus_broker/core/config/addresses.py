"""Addresses in the node's configuration: bootstrap servers, voters, limits by host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from isthmus_model.addresses import Address, split_host_and_port

from isthmus_broker.core.config.values import ConfigRefused

MAX_NODE_ID = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Voter:
    node_id: int
    address: Address


def parse_bootstrap_servers(entries: Iterable[str]) -> tuple[Address, ...]:
    """controller.quorum.bootstrap.servers."""
    addresses = []
    for entry in entries:
        address = split_host_and_port(entry)
        if address is None:
            key = "controller.quorum.bootstrap.servers"
            form = 'Each entry should be in the form "{host}:{port}"'
            raise ConfigRefused(f"Failed to parse host name from {entry} for the configuration {key}. {form}")
        addresses.append(address)
    return tuple(addresses)


def parse_voters(entries: Iterable[str]) -> tuple[Voter, ...]:
    """controller.quorum.voters, in order of node id."""
    voters = {}
    key = "controller.quorum.voters"
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    for entry in entries:
        node_id, at, rest = entry.partition("@")
        if not at or not rest or "@" in rest:
            raise ConfigRefused(f"Invalid configuration value for {key}. {form}")
        if not re.fullmatch(r"[+-]?\d{1,10}", node_id) or not 0 <= int(node_id) <= MAX_NODE_ID:
            raise ConfigRefused(f"Failed to parse voter ID as an integer from {node_id}.")
        address = split_host_and_port(rest)
        if address is None:
            raise ConfigRefused(f"Failed to parse host name from entry {entry} for the configuration {key}. {form}")
        voters[int(node_id)] = Voter(int(node_id), address)
    return tuple(voter for _, voter in sorted(voters.items()))


def parse_connection_limits(text: str) -> dict[str, int]:
    """max.connections.per.ip.overrides: `host:number` entries."""
    key = "max.connections.per.ip.overrides"
    limits = {}
    for entry in re.split(r"\s*,\s*", text) if text else ():
        host, colon, limit = entry.rpartition(":")
        if not colon or not re.fullmatch(r"[+-]?\d{1,10}", limit.strip()):
            raise ConfigRefused(f"Error parsing configuration property '{key}': {entry!r} is not host:number")
        if not re.fullmatch(r"[0-9a-zA-Z\-%._:]*", host.strip()):
            raise ConfigRefused(f"{key} contains invalid addresses : {host.strip()}")
        limits[host.strip()] = int(limit)
    return limits
