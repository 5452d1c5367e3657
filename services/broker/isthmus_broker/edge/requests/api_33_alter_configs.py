"""AlterConfigs, versions 0 to 2: replace all of a resource's settings; superseded by IncrementalAlterConfigs."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_about_configs import ask_about_configs
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.ALTER_CONFIGS)(ask_about_configs)
