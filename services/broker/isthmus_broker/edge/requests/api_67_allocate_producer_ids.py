"""AllocateProducerIds, version 0: a block of producer ids for a broker to give away."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.ALLOCATE_PRODUCER_IDS)(ask_controller)
