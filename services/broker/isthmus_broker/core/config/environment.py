"""Settings in environment variables, as Kafka's own container image reads them."""

from collections.abc import Mapping
from typing import Final

ENVIRONMENT_PREFIX: Final = "KAFKA_"
NOT_SETTINGS: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)
"""Variables of Kafka's own start scripts: they have the prefix but are not settings."""


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings by name.

    `KAFKA_` is the prefix; then `_` means a dot, `__` an underscore and `___` a hyphen.
    """
    settings = {}
    for variable, value in environ.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in NOT_SETTINGS:
            dotted = variable[len(ENVIRONMENT_PREFIX) :].lower().replace("_", ".")
            settings[dotted.replace("...", "-").replace("..", "_")] = value
    return settings
