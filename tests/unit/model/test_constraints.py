"""Placement constraints: the JSON of versions 1 and 2, what it allows, and invalid constraints."""

import json
from typing import Any

import pytest
from isthmus_model.constraints import Constraints, PlacementRule, Promotion, constraints_of, parse_constraints

WEST = {"count": 2, "constraints": {"rack": "west"}}
EAST = {"count": 1, "constraints": {"rack": "east"}}


def test_version_1_has_replicas_and_perhaps_observers() -> None:
    text = json.dumps({"version": 1, "replicas": [WEST], "observers": [EAST]})
    assert parse_constraints(text) == Constraints(
        (PlacementRule(2, rack="west"),), (PlacementRule(1, rack="east"),), Promotion.NEVER
    )
    assert parse_constraints(json.dumps({"version": 1, "replicas": [WEST]})).observers == ()


@pytest.mark.parametrize("policy", [policy for policy in Promotion if policy is not Promotion.NEVER])
def test_version_2_names_the_promotion_policy(policy: Promotion) -> None:
    given = {"version": 2, "replicas": [WEST], "observers": [EAST], "observerPromotionPolicy": policy.value}
    assert parse_constraints(json.dumps(given)).promotion is policy


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ([], "must be an object"),
        ({"replicas": [WEST]}, "version None"),
        ({"version": True, "replicas": [WEST]}, "version True"),
        ({"version": 3, "replicas": [WEST]}, "version 3"),
        ({"version": 1, "replicas": [WEST], "observerPromotionPolicy": "under-min-isr"}, "no observerPromotionPolicy"),
        ({"version": 2, "replicas": [WEST], "observers": [EAST], "observerPromotionPolicy": "maybe"}, "not one of"),
        ({"version": 2, "replicas": [WEST], "observers": [EAST], "observerPromotionPolicy": ""}, "not one of"),
        ({"version": 2, "replicas": [WEST], "observerPromotionPolicy": "under-min-isr"}, "no observers to promote"),
        ({"version": 1, "observers": [EAST]}, "at least one replica"),
        ({"version": 1, "replicas": {}}, "must be a list"),
        ({"version": 1, "replicas": [7]}, "must be like"),
        ({"version": 1, "replicas": [{"count": 0}]}, "from 1 to"),
        ({"version": 1, "replicas": [{"count": "2"}]}, "from 1 to"),
        ({"version": 1, "replicas": [{"count": 2, "constraints": {"rack": 1}}]}, "must name texts"),
        ({"version": 1, "replicas": [{"count": 2, "constraints": {"planet": "mars"}}]}, "planet"),
    ],
)
def test_invalid_constraints_are_refused_with_a_message(given: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_constraints(given if isinstance(given, str) else json.dumps(given))


def test_both_names_of_the_setting_are_accepted() -> None:
    text = json.dumps({"version": 1, "replicas": [WEST]})
    assert constraints_of({"confluent.placement.constraints": text}) == constraints_of(
        {"isthmus.placement.constraints": text}
    )
    assert constraints_of({"isthmus.placement.constraints": ""}) is None


def test_a_rack_is_matched_exactly_and_a_region_with_all_its_zones() -> None:
    assert PlacementRule(1, rack="eu/a").admits("eu/a")
    assert not PlacementRule(1, rack="eu").admits("eu/a")
    assert PlacementRule(1, region="eu").admits("eu/a")
    assert PlacementRule(1, region="eu").admits("eu")
    assert not PlacementRule(1, region="eu").admits("eu-west/a")
    assert not PlacementRule(1, region="eu").admits(None)
    assert PlacementRule(1).admits(None)


def test_an_assignment_meets_every_count_exactly() -> None:
    constraints = Constraints(
        (PlacementRule(1, region="eu"), PlacementRule(1, rack="eu/a")), (PlacementRule(1, rack="us"),)
    )
    assert constraints.admit(["eu/a", "eu/b"], ["us"])
    assert constraints.admit(["eu/b", "eu/a"], ["us"])
    assert not constraints.admit(["eu/b", "eu/b"], ["us"])
    assert not constraints.admit(["eu/a", "eu/b"], [])
    assert not constraints.admit(["eu/a", "eu/b", "eu/b"], ["us"])
