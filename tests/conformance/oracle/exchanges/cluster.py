"""The cluster itself: its nodes, its quorum, the APIs between nodes, and groups at brokers that do not coordinate them.

Node 1 is the controller. The nodes 2 to 4 are brokers; node 2 coordinates all groups.
"""

from functools import partial
from typing import Any, Final
from uuid import UUID

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.exchanges.replicas import BROKERS, placed
from tests.conformance.oracle.talk import Talk, node
from tests.conformance.oracle.values import NOWHERE, produce
from tests.node import CLUSTER_ID

GROUP = Group({"offsets.topic.num.partitions": "1"}, roles=("controller", "broker", "broker", "broker"))
_METADATA: Final = "__cluster_metadata"
_ALL_NODES: Final = ("node 1", "node 2", "node 3", "node 4")
_CONTROLLER: Final = node(1)
_DIRECTORY: Final = UUID(int=77)
_CLUSTERS: Final = (CLUSTER_ID, "another", None)


def _await_brokers(talk: Talk) -> None:
    """Wait until every node knows of all brokers."""
    for on in map(node, BROKERS):
        talk.settle(
            partial(
                talk.quiet, ApiKey.DESCRIBE_CLUSTER, on=on, include_cluster_authorized_operations=False, endpoint_type=1
            ),
            lambda answer: len(answer["brokers"]) == len(BROKERS),
        )


@GROUP.exchange
def the_nodes(talk: Talk) -> None:
    _await_brokers(talk)
    for on in _ALL_NODES:
        for kind in (1, 2):
            for version in (0, 1, 2):
                asked = {"include_cluster_authorized_operations": False, "endpoint_type": kind}
                talk.ask(ApiKey.DESCRIBE_CLUSTER, version, on, **asked)
    for on in map(node, BROKERS):
        for version in (1, 9, 13):
            talk.ask(ApiKey.METADATA, version, on, topics=None, allow_auto_topic_creation=False)


@GROUP.exchange
def the_apis_of_a_controller(talk: Talk) -> None:
    answer = talk.quiet(ApiKey.API_VERSIONS, 4, _CONTROLLER, client_software_name="oracle", client_software_version="1")
    keys = {one["api_key"]: [one["min_version"], one["max_version"]] for one in answer["api_keys"]}
    talk.note(ApiKey.API_VERSIONS, "API_VERSIONS of the controller 0", {str(key): keys[key] for key in sorted(keys)})


def _quorum(name: str = _METADATA, partition: int = 0) -> dict[str, Any]:
    return {"topics": [{"topic_name": name, "partitions": [{"partition_index": partition}]}]}


@GROUP.exchange
def the_quorum(talk: Talk) -> None:
    for on in _ALL_NODES:
        for version in (0, 1, 2):
            for name, partition in ((_METADATA, 0), (_METADATA, 1), ("nowhere", 0)):
                talk.ask(ApiKey.DESCRIBE_QUORUM, version, on, **_quorum(name, partition))
        talk.ask(ApiKey.DESCRIBE_QUORUM, 2, on, topics=[])


@GROUP.exchange
def voters_of_a_static_quorum(talk: Talk) -> None:
    listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
    for on in (node(2), _CONTROLLER):
        for cluster in _CLUSTERS:
            voter = {"cluster_id": cluster, "voter_id": 9, "voter_directory_id": _DIRECTORY}
            for version in (0, 1):
                talk.ask(ApiKey.ADD_RAFT_VOTER, version, on, **voter, timeout=1000, listeners=listeners)
            talk.ask(ApiKey.REMOVE_RAFT_VOTER, 0, on, **voter)
    feature = {"min_supported_version": 0, "max_supported_version": 1}
    for cluster in _CLUSTERS:
        for epoch in (0, 99):
            talk.ask(
                ApiKey.UPDATE_RAFT_VOTER, 0, _CONTROLLER, cluster_id=cluster, current_leader_epoch=epoch, voter_id=9,
                voter_directory_id=_DIRECTORY, listeners=listeners, k_raft_version_feature=feature,
            )  # fmt: skip


@GROUP.exchange
def brokers_that_nobody_knows(talk: Talk) -> None:
    beat = {"current_metadata_offset": 0, "want_fence": False, "want_shut_down": False}
    for broker in (2, 9, -1):
        for version in (0, 1):
            talk.ask(ApiKey.BROKER_HEARTBEAT, version, _CONTROLLER, broker_id=broker, broker_epoch=0, **beat)
        talk.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, _CONTROLLER, broker_id=broker, broker_epoch=0)
        directories = [{"id_": _DIRECTORY, "topics": [{"topic_id": NOWHERE, "partitions": [{"partition_index": 0}]}]}]
        talk.ask(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, _CONTROLLER, broker_id=broker, broker_epoch=0, directories=directories
        )
        partition = {
            "partition_index": 0, "leader_epoch": 0, "leader_recovery_state": 0, "partition_epoch": 0,
            "new_isr_with_epochs": [{"broker_id": 2, "broker_epoch": 0}],
        }  # fmt: skip
        topics = [{"topic_id": NOWHERE, "partitions": [partition]}]
        for version in (2, 3):
            talk.ask(ApiKey.ALTER_PARTITION, version, _CONTROLLER, broker_id=broker, broker_epoch=0, topics=topics)
    for on in (node(2), _CONTROLLER):
        talk.ask(ApiKey.UNREGISTER_BROKER, 0, on, broker_id=9)
        talk.ask(ApiKey.UNREGISTER_BROKER, 0, on, broker_id=-1)


@GROUP.exchange
def registrations_that_are_refused(talk: Talk) -> None:
    listeners = [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 1, "security_protocol": 0}]
    level = {"name": "metadata.version", "min_supported_version": 1, "max_supported_version": 1}
    for broker, cluster, features in (
        (9, "another", []),
        (9, CLUSTER_ID, [level]),
        (2, CLUSTER_ID, []),
        (-1, CLUSTER_ID, []),
    ):
        talk.ask(
            ApiKey.BROKER_REGISTRATION, 4, _CONTROLLER, broker_id=broker, cluster_id=cluster, incarnation_id=UUID(int=5),
            listeners=listeners, features=features, rack=None, is_migrating_zk_broker=False, log_dirs=[_DIRECTORY],
            previous_broker_epoch=-1,
        )  # fmt: skip
    talk.ask(
        ApiKey.BROKER_REGISTRATION, 4, _CONTROLLER, broker_id=9, cluster_id=CLUSTER_ID, incarnation_id=UUID(int=5),
        listeners=listeners, features=[], rack=None, is_migrating_zk_broker=True, log_dirs=[_DIRECTORY],
        previous_broker_epoch=-1,
    )  # fmt: skip


@GROUP.exchange
def votes_for_strangers(talk: Talk) -> None:
    for cluster in _CLUSTERS:
        for name, partition in ((_METADATA, 0), (_METADATA, 1), ("nowhere", 0)):
            for epoch in (0, 1):
                one = {
                    "partition_index": partition, "replica_epoch": epoch, "replica_id": 9, "last_offset_epoch": 0,
                    "last_offset": 0, "pre_vote": True, "replica_directory_id": _DIRECTORY, "voter_directory_id": _DIRECTORY,
                }  # fmt: skip
                topics = [{"topic_name": name, "partitions": [one]}]
                for version in (0, 2):
                    talk.ask(ApiKey.VOTE, version, _CONTROLLER, cluster_id=cluster, voter_id=1, topics=topics)


@GROUP.exchange
def leaders_of_epochs_long_past(talk: Talk) -> None:
    """A stranger that claims the epoch itself would end a controller of Apache Kafka."""
    for cluster in _CLUSTERS:
        for name, partition in ((_METADATA, 0), (_METADATA, 1), ("nowhere", 0)):
            stale = {"partition_index": partition, "leader_id": 9, "leader_epoch": 0}
            begun = [{"topic_name": name, "partitions": [{**stale, "voter_directory_id": _DIRECTORY}]}]
            for version in (0, 1):
                asked = {"cluster_id": cluster, "voter_id": 1, "leader_endpoints": [], "topics": begun}
                talk.ask(ApiKey.BEGIN_QUORUM_EPOCH, version, _CONTROLLER, **asked)
            for version, candidates in ((0, {"preferred_successors": [1]}), (1, {"preferred_candidates": []})):
                ended = [{"topic_name": name, "partitions": [{**stale, **candidates}]}]
                asked = {"cluster_id": cluster, "leader_endpoints": [], "topics": ended}
                talk.ask(ApiKey.END_QUORUM_EPOCH, version, _CONTROLLER, **asked)


@GROUP.exchange
def a_controller_is_no_broker(talk: Talk) -> None:
    talk.ask(ApiKey.METADATA, 13, _CONTROLLER, topics=None)
    talk.ask(ApiKey.PRODUCE, 13, _CONTROLLER, **produce("nowhere", NOWHERE, (0, None)))
    talk.ask(ApiKey.FIND_COORDINATOR, 6, _CONTROLLER, key_type=0, coordinator_keys=["g"])


@GROUP.exchange
def groups_of_another_coordinator(talk: Talk) -> None:
    placed(talk, "__consumer_offsets", [2, 3])
    placed(talk, "read", [3, 4])
    talk.settle(lambda: talk.quiet(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=("group",)))
    groups = [{"group_id": "group", "member_id": None, "member_epoch": -1, "topics": None}]
    talk.settle(lambda: talk.quiet(ApiKey.OFFSET_FETCH, on=node(2), groups=groups, require_stable=False))
    for on in map(node, BROKERS):
        for version in (0, 3, 6):
            asked = {"key_type": 0, "key": "group", "coordinator_keys": ["group", "other"]}
            talk.ask(ApiKey.FIND_COORDINATOR, version, on, **asked)
    for on in (node(3), node(4)):
        _ask_for_a_group(talk, on)


def _ask_for_a_group(talk: Talk, on: str) -> None:
    """Every request that only the coordinator serves."""
    offset = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": None}
    topics = [{"name": "read", "topic_id": NOWHERE, "partitions": [offset]}]
    member = {"group_id": "group", "generation_id": -1, "member_id": "", "group_instance_id": None}
    talk.ask(
        ApiKey.OFFSET_COMMIT, 9, on, group_id="group", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
        topics=topics,
    )  # fmt: skip
    for version in (6, 8, 9):
        fetched = [{"name": "read", "partition_indexes": [0]}]
        talk.ask(
            ApiKey.OFFSET_FETCH, version, on, group_id="group", topics=fetched, require_stable=False,
            groups=[{"group_id": "group", "member_id": None, "member_epoch": -1, "topics": fetched}],
        )  # fmt: skip
    talk.ask(
        ApiKey.JOIN_GROUP, 9, on, group_id="group", session_timeout=10_000, rebalance_timeout=10_000, member_id="",
        group_instance_id=None, protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}], reason=None,
    )  # fmt: skip
    talk.ask(ApiKey.SYNC_GROUP, 5, on, **member, protocol_type=None, protocol_name=None, assignments=[])
    talk.ask(ApiKey.HEARTBEAT, 4, on, **member)
    talk.ask(
        ApiKey.LEAVE_GROUP,
        5,
        on,
        group_id="group",
        members=[{"member_id": "m", "group_instance_id": None, "reason": None}],
    )
    talk.ask(ApiKey.DESCRIBE_GROUPS, 6, on, groups=["group"], include_authorized_operations=False)
    talk.ask(ApiKey.LIST_GROUPS, 5, on, states_filter=[], types_filter=[])
    talk.ask(ApiKey.DELETE_GROUPS, 2, on, groups_names=["group"])
    deleted = [{"name": "read", "partitions": [{"partition_index": 0}]}]
    talk.ask(ApiKey.OFFSET_DELETE, 0, on, group_id="group", topics=deleted)
    talk.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, on, group_id="group", member_id="m", member_epoch=0, instance_id=None, rack_id=None,
        rebalance_timeout=10_000, subscribed_topic_names=["read"], subscribed_topic_regex=None, server_assignor=None,
        topic_partitions=[],
    )  # fmt: skip
    talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, on, group_ids=["group"], include_authorized_operations=False)
