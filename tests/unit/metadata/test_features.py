"""Feature levels and the first records of a cluster."""

from __future__ import annotations

import pytest
from isthmus_broker.core.metadata.features import activation_records
from isthmus_broker.core.metadata.image import EMPTY_IMAGE
from isthmus_broker.core.metadata.operation import KraftVersion
from isthmus_broker.core.metadata.schema import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FeatureRange,
    NoOpRecord,
    RegisterControllerRecord,
)
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from tests.unit.metadata.cluster import Cluster, outcome


def test_a_new_cluster_starts_with_its_levels_in_one_transaction() -> None:
    context = Cluster(min_insync_replicas="2").context
    assert activation_records(EMPTY_IMAGE, context, in_transaction=False) == (
        BeginTransactionRecord(name="Bootstrap records"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="streams.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2"),
        EndTransactionRecord(),
    )


def test_a_controller_that_finds_a_transaction_open_aborts_it() -> None:
    cluster = Cluster()
    assert activation_records(cluster.image, cluster.context, in_transaction=False) == ()
    aborted = AbortTransactionRecord(reason="Controller failover")
    assert activation_records(cluster.image, cluster.context, in_transaction=True) == (aborted,)
    assert activation_records(EMPTY_IMAGE, cluster.context, in_transaction=True)[:2] == (
        aborted,
        BeginTransactionRecord(name="Bootstrap records"),
    )


def update(name: str, level: int, kind: int = 1, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    return entity(
        UpdateFeaturesRequest,
        timeout=NO_THROTTLE,
        feature_updates=(entity(FeatureUpdateKey, feature=name, max_version_level=level, upgrade_type=kind),),
        validate_only=validate_only,
    )


def test_a_level_goes_down_and_up_again() -> None:
    cluster = Cluster()
    assert outcome(cluster.response_to(update("group.version", 0, 2))) == (ErrorCode.none, None)
    assert cluster.image.feature("group.version") == 0
    cluster.response_to(update("group.version", 1, validate_only=True))
    assert cluster.image.feature("group.version") == 0
    cluster.response_to(update("group.version", 1))
    assert cluster.image.feature("group.version") == 1


def test_eligible_leaders_bring_a_min_isr_for_all_and_none_for_single_brokers() -> None:
    cluster = Cluster(elr=False)
    settings = [("1", "3"), ("", None)]
    cluster.append(
        [ConfigRecord(resource_type=4, resource_name=b, name="min.insync.replicas", value=v) for b, v in settings]
    )
    cluster.response_to(update("eligible.leader.replicas.version", 1))
    assert cluster.image.config(4, "") == {"min.insync.replicas": "1"}
    assert cluster.image.config(4, "1") == {}


PREFIX = "The update failed for all features since the following feature had an error: Invalid update version "


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            update("group.version", 0),
            (
                "0 for feature group.version. Can't downgrade the version of this feature without setting the upgrade type "
                "to either safe or unsafe downgrade."
            ),
        ),
        (update("group.version", 2), "2 for feature group.version. Local controller 1 only supports versions 0-1"),
        (update("share.version", 1), "1 for feature share.version. Local controller 1 does not support this feature."),
        (update("group.version", -1), "-1 for feature group.version. A feature version cannot be less than 0."),
        (
            update("group.version", 1, 7),
            "1 for feature group.version. The controller does not support the given upgrade type.",
        ),
        (update("kraft.version", 2), "2 for feature kraft.version. Local controller 1 only supports versions 0-1"),
    ],
)
def test_refused_updates(request_: UpdateFeaturesRequest, message: str) -> None:
    assert outcome(Cluster().response_to(request_)) == (ErrorCode.invalid_update_version, PREFIX + message)


def test_the_quorum_is_upgraded_once_all_of_its_voters_support_it() -> None:
    cluster = Cluster()
    refusal = (
        "The update failed for all features since the following feature had an error: "
        "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters support it"
    )
    result = cluster.decide(update("kraft.version", 1))
    assert (*outcome(result.response), result.upgrades_quorum) == (ErrorCode.invalid_update_version, refusal, False)
    cluster.kraft = KraftVersion(0, can_upgrade=True)
    assert not cluster.decide(update("kraft.version", 1, validate_only=True)).upgrades_quorum
    result = cluster.decide(update("kraft.version", 1))
    assert (*outcome(result.response), result.upgrades_quorum) == (ErrorCode.none, None, True)
    assert result.records == (NoOpRecord(),)


def test_the_quorum_is_not_downgraded() -> None:
    cluster = Cluster()
    cluster.kraft = KraftVersion(1, can_upgrade=False)
    result = cluster.decide(update("kraft.version", 1))
    assert (*outcome(result.response), result.upgrades_quorum) == (ErrorCode.none, None, False)
    for kind in (2, 3):
        refused = outcome(cluster.response_to(update("kraft.version", 0, kind)))
        message = "0 for feature kraft.version. Can't downgrade the version of this feature."
        assert refused == (ErrorCode.invalid_update_version, PREFIX + message)


@pytest.mark.parametrize(("controller_id", "error"), [(1, ErrorCode.none), (2, ErrorCode.invalid_update_version)])
def test_every_controller_must_support_a_level(controller_id: int, error: ErrorCode) -> None:
    """This controller's own supported levels are used, whatever an earlier process has registered."""
    cluster = Cluster()
    cluster.response_to(update("group.version", 0, 2))
    old = FeatureRange(name="group.version", min_supported_version=0, max_supported_version=0)
    cluster.append(
        [
            RegisterControllerRecord(
                controller_id=controller_id,
                incarnation_id=None,
                zk_migration_ready=False,
                endpoints=(),
                features=(old,),
            )
        ]
    )
    code, message = outcome(cluster.response_to(update("group.version", 1)))
    assert code is error
    assert (message is None) == (error is ErrorCode.none)
    assert message is None or message.endswith("Controller 2 does not support this feature.")
