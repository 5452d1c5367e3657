"""The kinds of resources that have configs, by the protocol's numbers."""

from enum import IntEnum


class ResourceType(IntEnum):
    """A kind of resource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
