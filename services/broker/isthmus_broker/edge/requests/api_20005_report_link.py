"""ReportLink, version 0, an API of our own: what a linker's worker found of a link."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.REPORT_LINK)(ask_controller)
