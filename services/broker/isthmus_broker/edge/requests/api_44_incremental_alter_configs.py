"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings."""

from isthmus_broker.core.metadata.configs import incremental_alter_configs
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import configs_not_altered
from isthmus_broker.edge.requests.config_requests import serve_config_changes

OPERATION = ControllerOperation(incremental_alter_configs, configs_not_altered)
handle = serve_config_changes
