"""Planted defects of replicas; the default sweep must find each of them.

They replace the product's cores, where its replica creates them, during a life.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final
from unittest.mock import patch

from isthmus_broker.core.replica import replica

from tests.sim.cluster.canaries import ForgetfulLeader, GenerousLeader, HastyLeader, StubbornFollower

CANARIES: Final[Mapping[str, tuple[str, type]]] = {
    "hasty-leader": ("ReplicaLeader", HastyLeader),
    "stubborn-follower": ("ReplicaFollower", StubbornFollower),
    "forgetful-leader": ("ReplicaLeader", ForgetfulLeader),
    "generous-leader": ("ReplicaLeader", GenerousLeader),
}


def planted(canary: str) -> AbstractContextManager[object]:
    """The product with that defect."""
    name, defect = CANARIES[canary]
    return patch.object(replica, name, defect)
