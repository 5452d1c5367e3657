"""Connection limits from the settings in force."""

import pytest
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.connection_quota import ConnectionLimits, ListenerLimits
from isthmus_broker.edge.transport.admission import connection_limits


def limits(**settings: str) -> ConnectionLimits:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return connection_limits(resolve_node(BrokerLayers(with_embedded_defaults(given, "data"))))


def test_the_node_each_listener_and_some_addresses_have_limits() -> None:
    found = limits(
        max_connections="7",
        max_connection_creation_rate="5",
        max_connections_per_ip="3",
        max_connections_per_ip_overrides="127.0.0.2:9,::1:4",
        listener_name_plaintext_max_connections="2",
    )
    assert (found.connections_max, found.rate_max, found.per_address_max) == (7, 5, 3)
    assert found.per_address_overrides == {"127.0.0.2": 9, "::1": 4}
    assert found.of("PLAINTEXT") == ListenerLimits(connections_max=2)
    assert found.of("CONTROLLER") == ListenerLimits()


def test_a_limit_of_a_listener_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigRefused):
        limits(listener_name_plaintext_max_connections="many")
