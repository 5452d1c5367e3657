"""AlterConfigs: replace all of a resource's settings; superseded by IncrementalAlterConfigs."""

from isthmus_broker.core.metadata.configs import alter_configs
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import configs_not_altered
from isthmus_broker.edge.requests.config_requests import serve_config_changes

OPERATION = ControllerOperation(alter_configs, configs_not_altered)
handle = serve_config_changes
