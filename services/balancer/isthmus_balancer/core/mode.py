"""When the balancer moves anything by itself."""

from enum import StrEnum


class Mode(StrEnum):
    """What has to be so before it does."""

    OFF = "off"
    EMPTY_BROKER = "empty-broker"
    ANY_UNEVEN_LOAD = "any-uneven-load"
