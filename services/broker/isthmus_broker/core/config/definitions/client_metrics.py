"""Client metrics subscriptions. They are validated but have no effect: no metrics are collected from clients."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Definition, Importance
from isthmus_broker.core.config.validators import ListOf
from isthmus_broker.core.config.values import Type

CLIENT_METRICS = (
    Definition("interval.ms", Type.INT, 300_000, None, Importance.MEDIUM),
    Definition("match", Type.LIST, (), ListOf(may_be_empty=True), Importance.MEDIUM),
    Definition("metrics", Type.LIST, (), ListOf(may_be_empty=True), Importance.MEDIUM),
)
