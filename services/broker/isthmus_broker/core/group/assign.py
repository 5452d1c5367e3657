"""The server-side assignors by name, and how one is chosen.

An assignor is a pure function from the members' subscriptions and former targets to new targets. Racks are ignored, as in Kafka 4.3.1's
assignors.
"""

from collections.abc import Callable
from typing import Final

from isthmus_broker.core.group.assign_range import assign_range
from isthmus_broker.core.group.assign_spec import GroupSpec, MemberSpec, Targets
from isthmus_broker.core.group.assign_uniform import assign_uniform

__all__ = ["ASSIGNORS", "GroupSpec", "MemberSpec", "Targets"]

ASSIGNORS: Final[dict[str, Callable[[GroupSpec], Targets]]] = {"uniform": assign_uniform, "range": assign_range}
