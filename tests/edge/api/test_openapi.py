"""Requests generated from the OpenAPI document: every response is one that the document describes, and none is a server error."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from isthmus_api.openapi import document
from isthmus_api.routes import all_routes
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.edge.api.server import Api, running_api
from tests.node import running_node

EXAMPLES = 5
ANYWAY = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
CHECKS = [*ANYWAY, negative_data_rejection]
TOO_LARGE = 413
# Operations that contact random addresses, that never end, or that remove the test's own cluster.
APART = ["register_cluster", "stream_events", "unregister_cluster", "sign_in"]

schema = schemathesis.openapi.from_dict(document(all_routes(), "test")).exclude(operation_id=APART)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, str]]:
    """A control plane and a cluster of its own, to be shot at."""
    place = tmp_path_factory.mktemp("openapi")
    with running_node(place / "node") as node, running_api(place / "api") as api:
        yield api, api.register("node", node.bootstrap)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
def test_responses_match_the_document(case: Any, target: tuple[Api, str]) -> None:
    api, cluster_id = target
    drawn = "cluster_id" not in case.path_parameters
    if not drawn:  # what was wrong with the request may have been the id of its cluster
        case.path_parameters["cluster_id"] = cluster_id
    response = case.call(base_url=f"http://127.0.0.1:{api.port}", headers=api.authorization, timeout=30)
    # A body that is too large is refused before it is parsed.
    checks = CHECKS if drawn and response.status_code != TOO_LARGE else ANYWAY
    case.validate_response(response, checks=checks)
