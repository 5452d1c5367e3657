"""Values that must differ between two brokers, and their replacements in a recording.

- ids: a broker draws topic, session, producer and member ids. The first that an exchange meets is `topic 1`, the next `topic 2`: which is
  which still shows.
- addresses: the host, the ports of the nodes, and the data directory. Clients of a cluster may get any broker as the controller.
- the four tables below.
"""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from isthmus_wire.apis import ApiKey

OURS: Final = 2**64
"""UUIDs below this number were made up by an exchange and stay as they are."""
PRODUCERS: Final = frozenset({"producer_id", "v3_and_below_producer_id", "producer_id_filters"})
"""The fields with producer ids."""
MADE_UP_PRODUCERS: Final = range(9_000_000, 9_001_000)
"""Producer ids that exchanges made up stay as well."""
DAY_MS: Final = 86_400_000

CLOCK: Final = frozenset(
    {
        "last_caught_up_timestamp", "last_fetch_timestamp",
        "log_append_time", "timestamp", "transaction_start_time", "last_timestamp", "base_timestamp", "max_timestamp", "records",
    }
)  # fmt: skip
"""time: values within a day of now were read from the broker's clock; made-up timestamps of exchanges are long ago."""

MACHINE: Final = frozenset({"total_bytes", "usable_bytes"})
"""machine: the size of the disk."""

EPOCHS: Final = frozenset({"finalized_features_epoch"})
"""epochs: an offset of the metadata log, whose number of records is each implementation's own."""

METADATA_OFFSETS: Final = frozenset({"high_watermark", "log_end_offset"})
"""epochs, in DescribeQuorum."""

KEYED: Final[Mapping[tuple[int, str], str]] = {
    (ApiKey.API_VERSIONS, "api_keys"): "api_key",
    (ApiKey.API_VERSIONS, "supported_features"): "name",
    (ApiKey.API_VERSIONS, "finalized_features"): "name",
    (ApiKey.METADATA, "topics"): "name",
    (ApiKey.DESCRIBE_CONFIGS, "configs"): "name",
    (ApiKey.CREATE_TOPICS, "configs"): "name",
    (ApiKey.CREATE_TOPICS, "topics"): "name",
    (ApiKey.LIST_GROUPS, "groups"): "group_id",
    (ApiKey.LIST_TRANSACTIONS, "transaction_states"): "transactional_id",
    (ApiKey.DESCRIBE_LOG_DIRS, "results"): "log_dir",
    (ApiKey.DESCRIBE_LOG_DIRS, "topics"): "name",
    (ApiKey.DESCRIBE_LOG_DIRS, "partitions"): "partition_index",
    (ApiKey.LIST_CONFIG_RESOURCES, "config_resources"): "resource_name",
    (ApiKey.JOIN_GROUP, "members"): "member_id",
    (ApiKey.DESCRIBE_GROUPS, "groups"): "group_id",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "groups"): "group_id",
    (ApiKey.STREAMS_GROUP_DESCRIBE, "groups"): "group_id",
    (ApiKey.DESCRIBE_GROUPS, "members"): "member_id",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "members"): "member_id",
    (ApiKey.STREAMS_GROUP_DESCRIBE, "members"): "member_id",
}
"""order: Kafka fills these lists from hash maps, so their order says nothing; they are compared by the key named here."""

SORTED: Final[Mapping[int, frozenset[str]]] = {
    ApiKey.PRODUCE: frozenset({"responses", "partition_responses"}),
    ApiKey.FETCH: frozenset({"responses", "partitions"}),
    ApiKey.OFFSET_FETCH: frozenset({"topics", "partitions"}),
    ApiKey.DELETE_TOPICS: frozenset({"responses"}),
    ApiKey.CREATE_PARTITIONS: frozenset({"results"}),
    ApiKey.DELETE_RECORDS: frozenset({"topics", "partitions"}),
    ApiKey.LIST_OFFSETS: frozenset({"topics", "partitions"}),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: frozenset({"topics", "partitions"}),
    ApiKey.OFFSET_COMMIT: frozenset({"topics", "partitions"}),
    ApiKey.TXN_OFFSET_COMMIT: frozenset({"topics", "partitions"}),
    ApiKey.ADD_PARTITIONS_TO_TXN: frozenset(
        {"results_by_transaction", "topic_results", "results_by_topic_v3_and_below", "results_by_partition"}
    ),
    ApiKey.WRITE_TXN_MARKERS: frozenset({"markers", "topics", "partitions"}),
    ApiKey.DESCRIBE_TRANSACTIONS: frozenset({"topics", "partitions"}),
    ApiKey.LIST_TRANSACTIONS: frozenset({"unknown_state_filters"}),
    ApiKey.DESCRIBE_PRODUCERS: frozenset({"active_producers"}),
    ApiKey.OFFSET_DELETE: frozenset({"topics", "partitions"}),
    ApiKey.DELETE_GROUPS: frozenset({"results"}),
    ApiKey.ALTER_REPLICA_LOG_DIRS: frozenset({"results", "partitions"}),
    ApiKey.METADATA: frozenset({"brokers"}),
    ApiKey.DESCRIBE_CLUSTER: frozenset({"brokers"}),
    ApiKey.ELECT_LEADERS: frozenset({"replica_election_results", "partition_result"}),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: frozenset({"responses", "partitions"}),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: frozenset({"topics", "partitions"}),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: frozenset({"topic_partitions"}),
    ApiKey.CONSUMER_GROUP_DESCRIBE: frozenset({"topic_partitions", "subscribed_topic_names"}),
    ApiKey.STREAMS_GROUP_HEARTBEAT: frozenset(
        {
            "active_tasks",
            "standby_tasks",
            "partitions_by_user_endpoint",
            "active_partitions",
            "standby_partitions",
            "partitions",
        }
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: frozenset({"topic_configs", "client_tags"}),
}
"""order, for lists without a key of their own: compared in sorted order."""

BY_NODE: Final[Mapping[tuple[int, str], str]] = {
    (ApiKey.DESCRIBE_QUORUM, "current_voters"): "replica_id",
    (ApiKey.DESCRIBE_QUORUM, "observers"): "replica_id",
}
"""order, for lists of nodes: sorted before ids in them get names."""

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CONTROLLER_PORT: Final = re.compile(r"(?<=@HOST:)\d+|(?<=CONTROLLER://HOST:)\d+")
_BEGINNING: Final = re.compile(r"-922337\d{13}\b")  # now less the longest of all times
_MILLISECONDS: Final = re.compile(r"\b\d{13}\b")
_SHORT_ID: Final = re.compile(r"(?<![\w-])[\w-]{21}[AQgw](?![\w-])")


class Rules:
    """The rules for one exchange with one broker; it remembers the names it gave."""

    def __init__(self, port: int, directory: Path, nodes: Mapping[int, int]) -> None:
        """`nodes` are the ports of a cluster's nodes by id."""
        self._ports = {port: "PORT", **{port: f"PORT {node}" for node, port in nodes.items()}}
        addresses = [(f":{number}", f":{name}") for number, name in self._ports.items()]
        self._texts = [(str(directory), "DIRECTORY"), *addresses, ("127.0.0.1", "HOST")]
        self._has_nodes = bool(nodes)
        self._names: dict[tuple[str, Any], str] = {}

    def apply(self, api_key: int, answer: Any) -> Any:
        """The response with names instead of values that must differ."""
        return self._value(api_key, "", answer)

    def _name(self, kind: str, value: Any) -> str:
        names = self._names
        if (kind, value) not in names:
            names[kind, value] = f"{kind} {sum(known == kind for known, _ in names) + 1}"
        return names[kind, value]

    def _value(self, api_key: int, field: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(api_key, value)
        if isinstance(value, list):
            return self._list(api_key, field, value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, UUID):
            return str(value.int) if value.int < OURS else self._name("topic", value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(api_key, field, value)
        return value

    def _mapping(self, api_key: int, value: Mapping[str, Any]) -> dict[str, Any]:
        plain = {name: self._value(api_key, name, inner) for name, inner in value.items()}
        if "crc" in plain and plain.get("max_timestamp") == "NOW":
            plain["crc"] = "OVER THE TIME"
        elif "crc" in plain and isinstance(plain["producer_id"], str):
            plain["crc"] = "OVER THE PRODUCER"
        return plain

    def _list(self, api_key: int, field: str, value: Sequence[Any]) -> Any:
        by_node = BY_NODE.get((api_key, field))
        if by_node is not None:
            value = sorted(value, key=lambda one: int(one[by_node]))
        plain = [self._value(api_key, field, one) for one in value]
        key = KEYED.get((api_key, field))
        if key is not None and all(isinstance(one, Mapping) and key in one for one in plain):
            return _by_key(plain, key)
        if field in SORTED.get(api_key, ()):
            return sorted(plain, key=repr)
        return plain

    def _number(self, api_key: int, field: str, value: int) -> Any:
        if field == "port":
            return self._ports.get(value, value)
        if field == "controller_id" and self._has_nodes:
            return "A BROKER" if value >= 0 else value
        if api_key == ApiKey.DESCRIBE_QUORUM and field in METADATA_OFFSETS and value >= 0:
            return "OFFSET"
        if field in MACHINE and value >= 0:
            return "BYTES"
        if field in EPOCHS and value >= 0:
            return "EPOCH"
        if field in CLOCK and _is_now(value):
            return "NOW"
        if field == "session_id" and value > 0:
            return self._name("session", value)
        if field in PRODUCERS and value >= 0 and value not in MADE_UP_PRODUCERS:
            return self._name("producer", value)
        return value

    def text(self, value: str) -> str:
        """A text without addresses, folders and drawn ids."""
        for found, name in self._texts:
            value = value.replace(found, name)
        value = _CONTROLLER_PORT.sub("PORT", value)
        value = _BEGINNING.sub("THE BEGINNING", value)
        value = _MILLISECONDS.sub(lambda match: "NOW" if _is_now(int(match[0])) else match[0], value)

        def replace(match: re.Match[str]) -> str:
            return self._name("id", match[0])

        return _SHORT_ID.sub(replace, _UUID.sub(replace, value))


def _is_now(milliseconds: int) -> bool:
    return abs(milliseconds - time.time() * 1000) < DAY_MS


def _by_key(entries: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    keyed: dict[str, Any] = {}
    for entry in sorted(entries, key=lambda one: (str(one[key]), repr(one))):
        name = str(entry[key])
        while name in keyed:
            name += " again"
        keyed[name] = entry
    return keyed
