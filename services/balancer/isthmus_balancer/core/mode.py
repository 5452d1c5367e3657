"""When the balancer moves replicas automatically."""

from enum import StrEnum


class Mode(StrEnum):
    """The condition for automatic moves."""

    OFF = "off"
    EMPTY_BROKER = "empty-broker"
    ANY_UNEVEN_LOAD = "any-uneven-load"
