"""The table of requests: complete, equal to what Apache Kafka advertises, and every row leads to code."""

from pathlib import Path

import pytest
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.edge import requests
from isthmus_broker.edge.controller.active_controller import QuorumOperation
from isthmus_broker.edge.requests.api_58_envelope import is_forwardable
from isthmus_broker.edge.requests.table import TABLE, Api, ServedBy, Side, file_of, handler_of, refusal_of, served
from isthmus_wire.apis import CONTROLLER_VERSIONS, KAFKA_VERSIONS, OWN_VERSIONS, ApiKey
from isthmus_wire.extensions import FIRST_OWN_KEY

EVERYWHERE = [(api, side) for api in TABLE.values() for side in Side if api.versions(side) is not None]


def test_the_versions_are_those_of_apache_kafka() -> None:
    brokers, controllers = served(Side.BROKER), served(Side.CONTROLLER)
    assert brokers == {int(key): versions for key, versions in sorted({**KAFKA_VERSIONS, **OWN_VERSIONS}.items())}
    of_kafka = {key: versions for key, versions in controllers.items() if key < FIRST_OWN_KEY}
    assert of_kafka == {int(key): versions for key, versions in sorted(CONTROLLER_VERSIONS.items())}


@pytest.mark.parametrize(
    ("api", "side"), EVERYWHERE, ids=lambda part: part.name if isinstance(part, Side) else part.key.name
)
def test_a_row_leads_to_its_code(api: Api, side: Side) -> None:
    assert callable(handler_of(api.key, side))
    operation = getattr(file_of(api.key, side), "OPERATION", None)
    if api.served_by is ServedBy.CONTROLLER and api.key is not ApiKey.ENVELOPE:
        assert isinstance(operation, ControllerOperation | QuorumOperation)
    else:
        assert operation is None
    if api.served_by is ServedBy.COORDINATOR:
        assert refusal_of(api, side) is not None


def test_every_file_has_a_row() -> None:
    files = {path.stem for path in Path(str(requests.__file__)).parent.glob("*_[0-9]*_*.py")}
    assert files == {api.file(side) for api, side in EVERYWHERE}


def test_what_kafka_brokers_may_forward() -> None:
    """ApiMessageType's forwardable requests, as far as they are served."""
    assert {key for key in TABLE if is_forwardable(key)} == {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
