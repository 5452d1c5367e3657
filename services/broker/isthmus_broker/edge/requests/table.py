"""The table of requests: for every API key the versions, the node that serves it, and the module.

A row leads to the file `api_<key>_<name>.py`, imported at the first such request, so that a node imports only what it needs. The file has
`handle`, which serves the request. One that the active controller serves also has `OPERATION`, the core functions that decide and refuse
it; any other may have `refuse`. An API without a row is neither served nor advertised.
"""

from collections.abc import Callable, Coroutine
from enum import Enum
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.edge.controller.active_controller import Operation
from isthmus_broker.edge.transport.connection import Request

Handler = Callable[[Any, Request], Coroutine[None, None, None] | None]
"""Takes `Services`, or `NodeServices` on a controller listener. Responds at once, keeps the request and responds later, or returns a
coroutine that does."""
Refusal = Callable[[Request, ErrorCode], None]
Versions = tuple[int, int]


class Side(Enum):
    """The kind of listener on which a request arrived."""

    BROKER = "broker"
    CONTROLLER = "controller"


class ServedBy(Enum):
    """The node that produces the response."""

    RECEIVER = "the node that receives it"
    CONTROLLER = "the active controller; brokers forward it"
    COORDINATOR = "the shard of a coordinator that leads the key's partition"


class Api(NamedTuple):
    """One row: versions on broker listeners and on controller listeners, None where it is not served."""

    key: ApiKey
    served_by: ServedBy
    brokers: Versions | None = None
    controllers: Versions | None = None
    controller_file: str | None = None
    """The file that serves the request on controller listeners, where it has only the name in common with the brokers' request."""

    def versions(self, side: Side) -> Versions | None:
        """The lowest and the highest version on listeners of this side."""
        return self.brokers if side is Side.BROKER else self.controllers

    def file(self, side: Side) -> str:
        """The name of the module in this package."""
        if side is Side.CONTROLLER and self.controller_file is not None:
            return self.controller_file
        return f"api_{self.key:02d}_{self.key.name.lower()}"


def _row(key: ApiKey, served_by: ServedBy, **served: Any) -> tuple[int, Api]:
    return int(key), Api(key, served_by, **served)


_RECEIVER, _CONTROLLER, _COORDINATOR = ServedBy.RECEIVER, ServedBy.CONTROLLER, ServedBy.COORDINATOR

# fmt: off
TABLE: Final[dict[int, Api]] = dict((
    _row(ApiKey.PRODUCE, _RECEIVER, brokers=(0, 13)),  # below 3 only listed, for old librdkafka
    _row(ApiKey.FETCH, _RECEIVER, brokers=(4, 18), controllers=(4, 18), controller_file="controller_01_fetch"),
    _row(ApiKey.LIST_OFFSETS, _RECEIVER, brokers=(1, 11)),
    _row(ApiKey.METADATA, _RECEIVER, brokers=(0, 13)),
    _row(ApiKey.OFFSET_COMMIT, _COORDINATOR, brokers=(2, 10)),
    _row(ApiKey.OFFSET_FETCH, _COORDINATOR, brokers=(1, 10)),
    _row(ApiKey.FIND_COORDINATOR, _RECEIVER, brokers=(0, 6)),
    _row(ApiKey.JOIN_GROUP, _COORDINATOR, brokers=(0, 9)),
    _row(ApiKey.HEARTBEAT, _COORDINATOR, brokers=(0, 4)),
    _row(ApiKey.LEAVE_GROUP, _COORDINATOR, brokers=(0, 5)),
    _row(ApiKey.SYNC_GROUP, _COORDINATOR, brokers=(0, 5)),
    _row(ApiKey.DESCRIBE_GROUPS, _COORDINATOR, brokers=(0, 6)),
    _row(ApiKey.LIST_GROUPS, _COORDINATOR, brokers=(0, 5)),
    _row(ApiKey.API_VERSIONS, _RECEIVER, brokers=(0, 4), controllers=(0, 4)),
    _row(ApiKey.CREATE_TOPICS, _CONTROLLER, brokers=(2, 7), controllers=(2, 7)),
    _row(ApiKey.DELETE_TOPICS, _CONTROLLER, brokers=(1, 6), controllers=(1, 6)),
    _row(ApiKey.DELETE_RECORDS, _RECEIVER, brokers=(0, 2)),
    _row(ApiKey.INIT_PRODUCER_ID, _RECEIVER, brokers=(0, 5)),
    _row(ApiKey.OFFSET_FOR_LEADER_EPOCH, _RECEIVER, brokers=(2, 4)),
    _row(ApiKey.ADD_PARTITIONS_TO_TXN, _COORDINATOR, brokers=(0, 5)),
    _row(ApiKey.ADD_OFFSETS_TO_TXN, _COORDINATOR, brokers=(0, 4)),
    _row(ApiKey.END_TXN, _COORDINATOR, brokers=(0, 5)),
    _row(ApiKey.WRITE_TXN_MARKERS, _RECEIVER, brokers=(1, 2)),
    _row(ApiKey.TXN_OFFSET_COMMIT, _COORDINATOR, brokers=(0, 5)),
    _row(ApiKey.DESCRIBE_CONFIGS, _RECEIVER, brokers=(1, 4), controllers=(1, 4)),
    _row(ApiKey.ALTER_CONFIGS, _CONTROLLER, brokers=(0, 2), controllers=(0, 2)),
    _row(ApiKey.ALTER_REPLICA_LOG_DIRS, _RECEIVER, brokers=(1, 2)),
    _row(ApiKey.DESCRIBE_LOG_DIRS, _RECEIVER, brokers=(1, 5)),
    _row(ApiKey.CREATE_PARTITIONS, _CONTROLLER, brokers=(0, 3), controllers=(0, 3)),
    _row(ApiKey.DELETE_GROUPS, _COORDINATOR, brokers=(0, 2)),
    _row(ApiKey.ELECT_LEADERS, _CONTROLLER, brokers=(0, 2), controllers=(0, 2)),
    _row(ApiKey.INCREMENTAL_ALTER_CONFIGS, _CONTROLLER, brokers=(0, 1), controllers=(0, 1)),
    _row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _CONTROLLER, brokers=(0, 1), controllers=(0, 1)),
    _row(ApiKey.LIST_PARTITION_REASSIGNMENTS, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.OFFSET_DELETE, _COORDINATOR, brokers=(0, 0)),
    _row(ApiKey.VOTE, _RECEIVER, controllers=(0, 2)),
    _row(ApiKey.BEGIN_QUORUM_EPOCH, _RECEIVER, controllers=(0, 1)),
    _row(ApiKey.END_QUORUM_EPOCH, _RECEIVER, controllers=(0, 1)),
    _row(ApiKey.DESCRIBE_QUORUM, _CONTROLLER, brokers=(0, 2), controllers=(0, 2)),
    _row(ApiKey.ALTER_PARTITION, _CONTROLLER, controllers=(2, 3)),
    _row(ApiKey.UPDATE_FEATURES, _CONTROLLER, brokers=(0, 2), controllers=(0, 2)),
    _row(ApiKey.ENVELOPE, _CONTROLLER, controllers=(0, 0)),
    _row(ApiKey.FETCH_SNAPSHOT, _RECEIVER, controllers=(0, 1)),
    _row(ApiKey.DESCRIBE_CLUSTER, _RECEIVER, brokers=(0, 2), controllers=(0, 2)),
    _row(ApiKey.DESCRIBE_PRODUCERS, _RECEIVER, brokers=(0, 0)),
    _row(ApiKey.BROKER_REGISTRATION, _CONTROLLER, controllers=(0, 4)),
    _row(ApiKey.BROKER_HEARTBEAT, _CONTROLLER, controllers=(0, 2)),
    _row(ApiKey.UNREGISTER_BROKER, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.DESCRIBE_TRANSACTIONS, _COORDINATOR, brokers=(0, 0)),
    _row(ApiKey.LIST_TRANSACTIONS, _COORDINATOR, brokers=(0, 2)),
    _row(ApiKey.ALLOCATE_PRODUCER_IDS, _CONTROLLER, controllers=(0, 0)),
    _row(ApiKey.CONSUMER_GROUP_HEARTBEAT, _COORDINATOR, brokers=(0, 1)),
    _row(ApiKey.CONSUMER_GROUP_DESCRIBE, _COORDINATOR, brokers=(0, 1)),
    _row(ApiKey.CONTROLLER_REGISTRATION, _CONTROLLER, controllers=(0, 0)),
    _row(ApiKey.ASSIGN_REPLICAS_TO_DIRS, _CONTROLLER, controllers=(0, 0)),
    _row(ApiKey.LIST_CONFIG_RESOURCES, _RECEIVER, brokers=(0, 1)),
    _row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, _RECEIVER, brokers=(0, 0)),
    _row(ApiKey.ADD_RAFT_VOTER, _CONTROLLER, brokers=(0, 1), controllers=(0, 1)),
    _row(ApiKey.REMOVE_RAFT_VOTER, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.UPDATE_RAFT_VOTER, _RECEIVER, controllers=(0, 0)),
    _row(ApiKey.STREAMS_GROUP_HEARTBEAT, _COORDINATOR, brokers=(0, 0)),
    _row(ApiKey.STREAMS_GROUP_DESCRIBE, _COORDINATOR, brokers=(0, 0)),
    # Isthmus' own, advertised only to clients that identify themselves as isthmus.
    _row(ApiKey.DESCRIBE_REPLICAS, _RECEIVER, brokers=(0, 0)),
    _row(ApiKey.CREATE_LINK, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.DESCRIBE_LINKS, _RECEIVER, brokers=(0, 0)),
    _row(ApiKey.ALTER_LINK, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.DELETE_LINK, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.REPORT_LINK, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.CREATE_MIRROR, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.DESCRIBE_MIRRORS, _RECEIVER, brokers=(0, 0)),
    _row(ApiKey.ALTER_MIRRORS, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.APPEND_MIRRORED, _RECEIVER, brokers=(0, 0)),
    _row(ApiKey.DESCRIBE_MIRROR_PROGRESS, _RECEIVER, brokers=(0, 0)),
    _row(ApiKey.RAISE_LEADER_EPOCHS, _CONTROLLER, brokers=(0, 0), controllers=(0, 0)),
    _row(ApiKey.APPEND_AFTER, _RECEIVER, brokers=(0, 0)),
))
# fmt: on


def served(side: Side) -> dict[int, Versions]:
    """Versions by API key, in the order of the keys."""
    rows = sorted(TABLE.items())
    return {key: versions for key, api in rows if (versions := api.versions(side)) is not None}


@cache
def file_of(key: int, side: Side) -> ModuleType:
    """The file of a row, imported now if necessary."""
    package = __name__.rpartition(".")[0]
    return import_module(f"{package}.{TABLE[key].file(side)}")


def handler_of(key: int, side: Side) -> Handler:
    """The handler of a row's requests."""
    handler: Handler = file_of(key, side).handle
    return handler


def operation_of(key: int) -> Operation:
    """The operation that decides and refuses a request that the active controller serves."""
    operation: Operation = file_of(key, Side.CONTROLLER).OPERATION
    return operation


def refusal_of(api: Api, side: Side) -> Refusal | None:
    """The function that responds with an error to a whole request; None if the API has no such response."""
    file = file_of(api.key, side)
    if hasattr(file, "OPERATION"):
        return _refuse_by_operation
    refusal: Refusal | None = getattr(file, "refuse", None)
    return refusal


def _refuse_by_operation(request: Request, error: ErrorCode) -> None:
    request.respond(operation_of(request.header.api_key).refuse(request.decode(), ControllerError(error)))
