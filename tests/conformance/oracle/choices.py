"""Where a node answers differently from Apache Kafka because we want it to: the whole list, each with its reason.

A choice that matches no difference any more fails the test, and so does another answer of ours: `recordings/choices.json` has them all.
"""

from typing import Final, NamedTuple


class Choice(NamedTuple):
    """Differences by place (group/exchange/step/field, with wildcards), and why they are right."""

    where: str
    reason: str


CONTROLLERS: Final = frozenset({17, 29, 30, 31, 36, 38, 39, 40, 41, 49, 50, 51})
"""Of the APIs that are not served, those of controllers."""


def _not_served(what: str, *keys: int) -> tuple[Choice, ...]:
    reason = f"{what} are not implemented, and what is not implemented is not advertised"
    places = [f"api_versions/*/api_keys/{key}" for key in keys]
    places += [f"cluster/the apis of a controller/*/{key}" for key in keys if key in CONTROLLERS]
    return tuple(Choice(place, reason) for place in places)


CHOICES: Final[tuple[Choice, ...]] = (
    *_not_served("SASL and its credentials", 17, 36, 50, 51),
    *_not_served("ACLs", 29, 30, 31),
    *_not_served("delegation tokens", 38, 39, 40, 41),
    *_not_served("client quotas", 48, 49),
    *_not_served("share groups", 76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),
    Choice("api_versions/*/*_features/share.version", "share groups are not implemented"),
    Choice(
        "api_versions/*/supported_features/metadata.version/min_version",
        "only the records of the newest metadata level are written and read",
    ),
    Choice("configs/documentation/*/documentation", "the texts are our own words"),
    Choice(
        "configs/changes of resources that are none/12 INCREMENTAL_ALTER_CONFIGS v1/responses/0/error_message",
        "broker loggers are not a resource here: their log levels are Java's",
    ),
    Choice("produce/batches that are wrong/21 *", "records inside a produced batch are not opened: bytes pass through"),
    *(
        Choice(
            f"produce/batches whose records cannot be read/{number} plain: *",
            "a batch that can hold what it claims is not opened, unless the topic compacts or compresses",
        )
        for number in (2, 3, 4)
    ),
    Choice("offsets/coordinators of transactions/*", "share groups have no coordinator here"),
    Choice(
        "streams_groups/endpoints without source topics/0 *",
        "Kafka fails here; the member is to learn which source topics are missing",
    ),
    Choice(
        "streams_groups/endpoints of sources of different sizes/*/active_partitions/0/partitions",
        "Kafka names a partition that does not exist",
    ),
    Choice(
        "transactions_across_brokers/markers at other brokers/2 *",
        "Kafka fails on a producer epoch below 0; each partition gets an error of its own",
    ),
    *(
        Choice(
            f"replicas/reassignments over reassignments/{number} *",
            "decision 36: in Kafka this one would never complete",
        )
        for number in (9, 13)
    ),
)
