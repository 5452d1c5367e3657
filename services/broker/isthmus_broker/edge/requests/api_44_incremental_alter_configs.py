"""IncrementalAlterConfigs, versions 0 and 1: set, delete, append to or subtract from single settings."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_about_configs import ask_about_configs
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)(ask_about_configs)
