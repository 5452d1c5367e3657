"""The first voters of a quorum whose voters are in the metadata log: options of `isthmus storage format` (KIP-853), with Kafka's rules."""

import re
from typing import TYPE_CHECKING, Final

from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.raft.types import ReplicaKey, Voter, VoterEndpoint, VoterSet
from isthmus_model.addresses import split_host_and_port

if TYPE_CHECKING:
    from uuid import UUID

    from isthmus_broker.core.config.node_config import NodeConfig

_ENTRY: Final = re.compile(r"(\d+)@(.+):([A-Za-z0-9_-]{22})")


def first_voters(
    config: "NodeConfig", own_directory: "UUID", initial: str | None, *, standalone: bool, none: bool
) -> VoterSet | None:
    """The voters to write; None for static voters or a node that joins later. Raises ConfigRefused."""
    chosen = sum((standalone, initial is not None, none))
    if chosen > 1:
        raise ConfigRefused("only one of --standalone, --initial-controllers and --no-initial-controllers can be given")
    if config.voters:
        if chosen:
            raise ConfigRefused(
                "controller.quorum.voters defines the voters; remove it to use --standalone, --initial-controllers or "
                "--no-initial-controllers"
            )
        return None
    if not config.is_controller:
        if standalone or initial is not None:
            raise ConfigRefused("only a controller is formatted with voters: process.roles has no controller")
        return None
    if not chosen:
        raise ConfigRefused(
            "controller.quorum.voters is not set; name the first voters with --standalone, --initial-controllers, or "
            "--no-initial-controllers for a controller that joins a quorum later"
        )
    if standalone:
        from isthmus_broker.edge.controller.metadata_quorum import local_voter

        return VoterSet((local_voter(config, own_directory),))
    return None if initial is None else parse_initial_controllers(initial, config.listeners.controller_names[0])


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """Parse `id@host:port:directory-id` entries, separated by commas."""
    from isthmus_model.uuid_text import parse_uuid

    voters: dict[int, Voter] = {}
    for entry in text.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        address = None if match is None else split_host_and_port(match[2])
        if match is None or address is None:
            raise ConfigRefused(f"--initial-controllers: expected ID@HOST:PORT:DIRECTORY-ID, got '{entry}'")
        node_id = int(match[1])
        if node_id in voters:
            raise ConfigRefused(f"--initial-controllers lists node {node_id} twice")
        key = ReplicaKey(node_id, parse_uuid(match[3]))
        voters[node_id] = Voter(key, (VoterEndpoint(listener, address.host, address.port),))
    return VoterSet(tuple(voter for _, voter in sorted(voters.items())))
