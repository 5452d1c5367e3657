"""DescribeQuorum, versions 0 to 2: how far the voters and observers of the metadata log are, as their leader knows it."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.DESCRIBE_QUORUM)(ask_controller)
