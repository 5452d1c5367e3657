"""The `quorum-state` file beside the metadata log, in Kafka's format.

Version 0 is for static voters and lists them; version 1 (kraft.version 1) adds the directory that was voted for.
"""

import json
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from isthmus_model.uuid_text import parse_uuid, uuid_text

from isthmus_broker.core.raft.types import QuorumState, ReplicaKey, VoterSet
from isthmus_broker.edge.storage.files import replace_file
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log_dir import Inconsistent

QUORUM_STATE: Final = "quorum-state"
_NOBODY: Final = -1
_NO_DIRECTORY: Final = UUID(int=0)


class DamagedQuorumState(Inconsistent):
    """The file is damaged. A node that continued without it could vote twice."""


def read_quorum_state(files: FileSystem, directory: Path) -> QuorumState:
    """Read the quorum state; the initial state if there is no file yet."""
    path = directory / QUORUM_STATE
    try:
        data = json.loads(files.read_file(path))
    except FileNotFoundError:
        return QuorumState()
    except ValueError as error:
        raise DamagedQuorumState(f"{path}: {error}") from error
    try:
        return _parse(data)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedQuorumState(f"{path}: {error!r}") from error


def _parse(data: dict[str, Any]) -> QuorumState:
    if data["data_version"] not in (0, 1):
        raise ValueError(f"version {data['data_version']}")
    leader_id, voted_id = int(data["leaderId"]), int(data["votedId"])
    directory = parse_uuid(data["votedDirectoryId"]) if "votedDirectoryId" in data else _NO_DIRECTORY
    return QuorumState(
        int(data["leaderEpoch"]),
        None if leader_id == _NOBODY else leader_id,
        None if voted_id == _NOBODY else ReplicaKey(voted_id, None if directory == _NO_DIRECTORY else directory),
    )


def write_quorum_state(files: FileSystem, directory: Path, state: QuorumState, static_voters: VoterSet | None) -> None:
    """Replace the file; it is durable when this returns."""
    leader_id = _NOBODY if state.leader_id is None else state.leader_id
    voted_id = _NOBODY if state.voted is None else state.voted.node_id
    data: dict[str, Any]
    if static_voters is not None:
        data = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": node_id} for node_id in static_voters.node_ids()],
            "data_version": 0,
        }
    else:
        voted_directory = state.voted.directory_id if state.voted is not None else None
        data = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_text(voted_directory or _NO_DIRECTORY),
            "data_version": 1,
        }
    replace_file(files, directory / QUORUM_STATE, json.dumps(data, separators=(",", ":")).encode())
