"""Feature levels: those that this release supports, those that the cluster has finalised, and the records of a new cluster.

A feature or level that is not implemented is not supported, so it is never advertised and cannot be finalised: share groups are
missing here, and metadata.version has the one level whose records `schema` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.update_features.v2.request import UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from isthmus_broker.core.config.topic_config import TOPIC_SYNONYMS
from isthmus_broker.core.metadata.image import (
    DEFAULT_BROKER,
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    ClusterImage,
)
from isthmus_broker.core.metadata.operation import DecisionContext
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result
from isthmus_broker.core.metadata.schema import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FeatureRange,
    MetadataRecord,
    NoOpRecord,
)

METADATA_4_3_IV0: Final = 30
SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (METADATA_4_3_IV0, METADATA_4_3_IV0),
    KRAFT_VERSION: (0, 1),
    GROUP_VERSION: (0, 1),
    ELR_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
# The levels of a new cluster, in the order in which they are written; kraft.version is the quorum's own.
INITIAL: Final[Mapping[str, int]] = {
    METADATA_VERSION: METADATA_4_3_IV0,
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_MIN_ISR: Final = "min.insync.replicas"


def supported_ranges() -> tuple[FeatureRange, ...]:
    """The supported features in the registration of a node of this release."""
    return tuple(
        FeatureRange(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in sorted(SUPPORTED.items())
    )


def activation_records(
    image: ClusterImage, context: ControllerContext, *, in_transaction: bool
) -> tuple[MetadataRecord, ...]:
    """The records of a new active controller: it aborts its predecessor's open transaction, and bootstraps a new cluster."""
    records: list[MetadataRecord] = []
    if in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if METADATA_VERSION in image.features:
        return tuple(records)
    records.append(BeginTransactionRecord(name="Bootstrap records"))
    records += [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL.items()]
    records += _elr_safety_records(image, context)
    records.append(EndTransactionRecord())
    return tuple(records)


def _elr_safety_records(image: ClusterImage, context: ControllerContext) -> list[MetadataRecord]:
    """Eligible leaders require one min.insync.replicas for the whole cluster, set in the metadata, and none for single brokers."""
    records: list[MetadataRecord] = []
    for resource, settings in sorted(image.configs.items()):
        if resource.type == DEFAULT_BROKER.type and resource.name and _MIN_ISR in settings:
            records.append(_min_isr_record(resource.name, None))
    if _MIN_ISR not in image.configs.get(DEFAULT_BROKER, {}):
        ((key, _),) = TOPIC_SYNONYMS[_MIN_ISR]
        records.insert(0, _min_isr_record("", context.node.layers.static.get(key, str(context.node.values[key]))))
    return records


def _min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=DEFAULT_BROKER.type, resource_name=broker, name=_MIN_ISR, value=value)


def update_features(
    image: ClusterImage, request: UpdateFeaturesRequest, context: DecisionContext
) -> Result[UpdateFeaturesResponse]:
    """Apply all of the updates or none."""
    records: list[MetadataRecord] = []
    code, message = ErrorCode.none, None
    try:
        for update in request.feature_updates:
            records += _update(image, context, update.feature, update.max_version_level, update.upgrade_type)
        if any(isinstance(r, FeatureLevelRecord) and r.name == ELR_VERSION and r.feature_level for r in records):
            records = [*_elr_safety_records(image, context), *records]
    except ControllerError as refusal:
        records = []
        code = refusal.code
        message = f"The update failed for all features since the following feature had an error: {refusal.message}"
    response = entity(UpdateFeaturesResponse, throttle_time=NO_THROTTLE, error_code=code, error_message=message)
    if request.validate_only or not records:
        return Result((), response)
    upgrades = any(
        u.feature == KRAFT_VERSION and u.max_version_level > context.kraft.level for u in request.feature_updates
    )
    return Result(tuple(records), response, upgrades_quorum=upgrades)


def _update(
    image: ClusterImage, context: DecisionContext, name: str, level: int, upgrade_type: int
) -> list[MetadataRecord]:
    why = _why_not(image, context, name, level, upgrade_type)
    if why is not None:
        raise ControllerError(
            ErrorCode.invalid_update_version, f"Invalid update version {level} for feature {name}. {why}"
        )
    if name != KRAFT_VERSION:
        return [FeatureLevelRecord(name=name, feature_level=level)]
    if level > context.kraft.level and not context.kraft.can_upgrade:
        why = f"Invalid upgrade of {name} to KRAFT_VERSION_{level} because not all of the voters support it"
        raise ControllerError(ErrorCode.invalid_update_version, why)
    # The level is in the voters' records; as in Kafka, this record is the one whose commit the response waits for.
    return [NoOpRecord()]


def _why_not(image: ClusterImage, context: DecisionContext, name: str, level: int, upgrade_type: int) -> str | None:
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    unsupported = _unsupported(level, f"Local controller {context.node.node_id}", SUPPORTED.get(name, (0, 0)))
    others = {f"Broker {broker_id}": broker.features for broker_id, broker in sorted(image.brokers.items())}
    for controller_id, controller in sorted(image.controllers.items()):
        if controller_id != context.node.node_id:
            others[f"Controller {controller_id}"] = controller.features
    for who, features in others.items():
        ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in features}
        unsupported = unsupported or _unsupported(level, who, ranges.get(name, (0, 0)))
    if unsupported is not None:
        return unsupported
    current = context.kraft.level if name == KRAFT_VERSION else image.feature(name)
    if level < current and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if level < current and name == KRAFT_VERSION:
        return "Can't downgrade the version of this feature."
    return None


def _unsupported(level: int, what: str, supported: tuple[int, int]) -> str | None:
    low, high = supported
    if low <= level <= high:
        return None
    if high == 0:
        return f"{what} does not support this feature."
    return f"{what} only supports versions {low if low == high else f'{low}-{high}'}"
