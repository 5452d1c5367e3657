"""REST v3 against a node of ours and against Apache Kafka."""

import asyncio

from isthmus_client.admin import group_offsets
from isthmus_client.admin.group_offsets import Committed
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer
from isthmus_model.endpoints import parse_bootstrap

from tests.edge.api.conftest import Registered


def _url(cluster: Registered, path: str) -> str:
    return f"http://127.0.0.1:{cluster.api.port}{cluster.path}{path}"


def test_a_cluster_says_what_it_is(cluster: Registered) -> None:
    entry = cluster.api.get(f"/api/v1/clusters/{cluster.cluster_id}")
    assert (entry["kind"], entry["bootstrap_servers"]) == (cluster.kind, cluster.bootstrap)
    assert entry["regions"] == [{"isthmus": "eu-west", "kafka": "us-east"}[cluster.kind]]
    told = cluster.api.get(cluster.path)
    assert told == {
        "kind": "KafkaCluster",
        "metadata": {"self": _url(cluster, ""), "resource_name": f"crn:///kafka={cluster.cluster_id}"},
        "cluster_id": cluster.cluster_id,
        "controller": {"related": _url(cluster, "/brokers/1")},
        "acls": {"related": _url(cluster, "/acls")},
        "brokers": {"related": _url(cluster, "/brokers")},
        "broker_configs": {"related": _url(cluster, "/broker-configs")},
        "consumer_groups": {"related": _url(cluster, "/consumer-groups")},
        "topics": {"related": _url(cluster, "/topics")},
        "partition_reassignments": {"related": _url(cluster, "/topics/-/partitions/-/reassignment")},
    }
    every = cluster.api.await_that("/kafka/v3/clusters", lambda every: told in every["data"])
    assert every["kind"] == "KafkaClusterList"
    assert every["metadata"] == {"self": f"http://127.0.0.1:{cluster.api.port}/kafka/v3/clusters", "next": None}


def test_a_cluster_is_registered_once(cluster: Registered) -> None:
    again = {"name": "another-name", "bootstrap_servers": cluster.bootstrap}
    answer = cluster.api.request("POST", "/api/v1/clusters", again)
    name = {"isthmus": "ours", "kafka": "apache"}[cluster.kind]
    message = f"This cluster ({cluster.cluster_id}) is registered already, as {name}."
    assert (answer.status, answer.body) == (409, {"error_code": 409, "message": message})


def test_brokers(cluster: Registered) -> None:
    (broker,) = cluster.api.get(f"{cluster.path}/brokers")["data"]
    host, port = cluster.bootstrap.split(":")
    assert broker == {
        "kind": "KafkaBroker",
        "metadata": {
            "self": _url(cluster, "/brokers/1"),
            "resource_name": f"crn:///kafka={cluster.cluster_id}/broker=1",
        },
        "cluster_id": cluster.cluster_id,
        "broker_id": 1,
        "host": host,
        "port": int(port),
        "rack": {"isthmus": "eu-west/a", "kafka": "us-east/b"}[cluster.kind],
        "configs": {"related": _url(cluster, "/brokers/1/configs")},
        "partition_replicas": {"related": _url(cluster, "/brokers/1/partition-replicas")},
    }
    assert cluster.api.get(f"{cluster.path}/brokers/1") == broker
    missing = cluster.api.request("GET", f"{cluster.path}/brokers/7")
    assert (missing.status, missing.body) == (404, {"error_code": 404, "message": "Broker 7 cannot be found."})
    assert cluster.api.request("GET", f"{cluster.path}/brokers/x").status == 404


def test_the_life_of_a_topic(cluster: Registered) -> None:
    api, path = cluster.api, f"{cluster.path}/topics"
    wanted = {
        "topic_name": "orders",
        "partitions_count": 2,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "60000"}],
    }
    planned = api.request("POST", path, {**wanted, "validate_only": True})
    assert (planned.status, planned.body["partitions_count"]) == (201, 2)
    assert api.request("GET", f"{path}/orders").status == 404
    made = api.request("POST", path, wanted)
    assert made.status == 201
    assert made.body == {
        "kind": "KafkaTopic",
        "metadata": {
            "self": _url(cluster, "/topics/orders"),
            "resource_name": f"crn:///kafka={cluster.cluster_id}/topic=orders",
        },
        "cluster_id": cluster.cluster_id,
        "topic_name": "orders",
        "is_internal": False,
        "replication_factor": 1,
        "partitions_count": 2,
        "partitions": {"related": _url(cluster, "/topics/orders/partitions")},
        "configs": {"related": _url(cluster, "/topics/orders/configs")},
        "partition_reassignments": {"related": _url(cluster, "/topics/orders/partitions/-/reassignment")},
        "authorized_operations": [],
    }
    assert made.body == api.get(f"{path}/orders")
    assert made.body in api.get(path)["data"]
    twice = api.request("POST", path, wanted)
    message = "Topic 'orders' already exists."
    assert (twice.status, twice.body) == (400, {"error_code": 40002, "message": message})
    assert api.request("PATCH", f"{path}/orders", {"partitions_count": 3}).body["partitions_count"] == 3
    assert api.request("PATCH", f"{path}/orders", {"partitions_count": 1}).body["error_code"] == 40002
    assert api.request("DELETE", f"{path}/orders").status == 204
    gone = api.request("DELETE", f"{path}/orders")
    message = "This server does not host this topic-partition."
    assert (gone.status, gone.body) == (404, {"error_code": 40403, "message": message})


def test_a_topic_is_placed_by_hand(cluster: Registered) -> None:
    api, path = cluster.api, f"{cluster.path}/topics"
    placed = [{"partition_id": 0, "broker_ids": [1]}, {"partition_id": 1, "broker_ids": [1]}]
    made = api.request("POST", path, {"topic_name": "placed", "replicas_assignments": placed})
    assert (made.status, made.body["partitions_count"], made.body["replication_factor"]) == (201, 2, 1)
    both = {"topic_name": "both", "partitions_count": 1, "replicas_assignments": placed}
    assert api.request("POST", path, both).status == 422
    bad = api.request("POST", path, {"topic_name": "no/slash", "partitions_count": 1})
    assert (bad.status, bad.body["error_code"]) == (400, 40002)
    many = api.request("POST", path, {"topic_name": "many", "partitions_count": 1, "replication_factor": 3})
    assert (many.status, many.body["error_code"]) == (400, 40002)
    assert api.request("DELETE", f"{path}/placed").status == 204


def test_partitions_and_replicas(cluster: Registered) -> None:
    api, topic = cluster.api, f"{cluster.path}/topics/split"
    assert api.request("POST", f"{cluster.path}/topics", {"topic_name": "split", "partitions_count": 2}).status == 201
    partitions = api.get(f"{topic}/partitions")
    assert partitions["kind"] == "KafkaPartitionList"
    assert [one["partition_id"] for one in partitions["data"]] == [0, 1]
    assert partitions["data"][1] == api.get(f"{topic}/partitions/1")
    assert partitions["data"][1]["leader"] == {"related": _url(cluster, "/topics/split/partitions/1/replicas/1")}
    (replica,) = api.get(f"{topic}/partitions/1/replicas")["data"]
    assert replica == api.get(f"{topic}/partitions/1/replicas/1")
    assert (replica["broker_id"], replica["is_leader"], replica["is_in_sync"]) == (1, True, True)
    assert replica in api.get(f"{cluster.path}/brokers/1/partition-replicas")["data"]
    assert api.request("GET", f"{topic}/partitions/1/replicas/2").status == 404
    assert api.request("GET", f"{topic}/partitions/2").body["error_code"] == 40403
    assert api.get(f"{topic}/partitions/-/reassignment")["data"] == []
    assert api.get(f"{cluster.path}/topics/-/partitions/-/reassignment")["kind"] == "KafkaReassignmentList"
    assert api.request("GET", f"{topic}/partitions/1/reassignment").status == 404
    assert api.request("DELETE", topic).status == 204


def test_configs_of_a_topic(cluster: Registered) -> None:
    api, topic = cluster.api, f"{cluster.path}/topics/configured"
    assert (
        api.request("POST", f"{cluster.path}/topics", {"topic_name": "configured", "partitions_count": 1}).status == 201
    )
    before = api.get(f"{topic}/configs/cleanup.policy")
    assert before == {
        "kind": "KafkaTopicConfig",
        "metadata": {
            "self": _url(cluster, "/topics/configured/configs/cleanup.policy"),
            "resource_name": f"crn:///kafka={cluster.cluster_id}/topic=configured/config=cleanup.policy",
        },
        "cluster_id": cluster.cluster_id,
        "name": "cleanup.policy",
        "value": "delete",
        "is_default": True,
        "is_read_only": False,
        "is_sensitive": False,
        "source": "DEFAULT_CONFIG",
        "synonyms": [],
        "topic_name": "configured",
    }
    assert api.request("PUT", f"{topic}/configs/cleanup.policy", {"value": "compact"}).status == 204
    after = api.get(f"{topic}/configs/cleanup.policy")
    assert (after["value"], after["is_default"], after["source"]) == ("compact", False, "DYNAMIC_TOPIC_CONFIG")
    changes = [{"name": "cleanup.policy", "operation": "DELETE"}, {"name": "retention.ms", "value": "1000"}]
    assert api.request("POST", f"{topic}/configs:alter", {"data": changes, "validate_only": True}).status == 204
    assert api.get(f"{topic}/configs/cleanup.policy") == after
    assert api.request("POST", f"{topic}/configs:alter", {"data": changes}).status == 204
    assert api.get(f"{topic}/configs/cleanup.policy") == before
    listed = api.get(f"{topic}/configs")
    assert {one["name"]: one["value"] for one in listed["data"]}["retention.ms"] == "1000"
    assert api.request("DELETE", f"{topic}/configs/retention.ms").status == 204
    assert api.get(f"{topic}/configs/retention.ms")["is_default"] is True
    every = api.get(f"{cluster.path}/topics/-/configs")["data"]
    assert [one for one in every if one["topic_name"] == "configured"] == api.get(f"{topic}/configs")["data"]
    assert api.request("GET", f"{topic}/configs/no.such").status == 404
    wrong = api.request("PUT", f"{topic}/configs/cleanup.policy", {"value": "burn"})
    assert (wrong.status, wrong.body["error_code"]) == (400, 40002)
    assert api.request("GET", f"{cluster.path}/topics/absent/configs").body["error_code"] == 40403
    assert api.request("DELETE", topic).status == 204


def test_configs_of_brokers(cluster: Registered) -> None:
    api, broker, every = cluster.api, f"{cluster.path}/brokers/1", f"{cluster.path}/broker-configs"
    name = "log.retention.ms"
    assert api.request("PUT", f"{every}/{name}", {"value": "123456789"}).status == 204
    (found,) = [
        one
        for one in api.await_that(every, lambda told: any(c["name"] == name for c in told["data"]))["data"]
        if one["name"] == name
    ]
    assert (found["kind"], found["config_type"], found["value"]) == ("KafkaClusterConfig", "BROKER", "123456789")
    assert found["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    inherited = api.await_that(f"{broker}/configs/{name}", lambda told: told["value"] == "123456789")
    assert (inherited["kind"], inherited["source"]) == ("KafkaBrokerConfig", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    alter = {"data": [{"name": name, "value": "987654321"}]}
    assert api.request("POST", f"{broker}/configs:alter", alter).status == 204
    own = api.await_that(f"{broker}/configs/{name}", lambda told: told["value"] == "987654321")
    assert own["source"] == "DYNAMIC_BROKER_CONFIG"
    assert api.request("DELETE", f"{broker}/configs/{name}").status == 204
    assert api.request("DELETE", f"{every}/{name}").status == 204
    api.await_that(f"{broker}/configs/{name}", lambda told: told["source"] not in ("DYNAMIC_BROKER_CONFIG",))
    assert {one["broker_id"] for one in api.get(f"{cluster.path}/brokers/-/configs")["data"]} == {1}
    assert api.request("GET", f"{cluster.path}/brokers/7/configs").status == 404


async def _consume(bootstrap: str) -> None:
    """Ten records into a partition, three of them committed by a group that has ended."""
    async with Client(parse_bootstrap(bootstrap)) as client:
        producer = Producer(client)
        for number in range(10):
            await producer.send("read", str(number).encode(), partition=0)
        await producer.flush()
        offsets = {TopicPartition("read", 0): Committed(3), TopicPartition("read", 1): Committed(0)}
        refused = await group_offsets.commit(client, "ended", offsets)
        assert set(refused.values()) == {None}


def test_lags_of_a_group_that_has_ended(cluster: Registered) -> None:
    api = cluster.api
    assert api.request("POST", f"{cluster.path}/topics", {"topic_name": "read", "partitions_count": 2}).status == 201
    asyncio.run(_consume(cluster.bootstrap))
    group = f"{cluster.path}/consumer-groups/ended"
    told = api.get(group)
    assert told == {
        "kind": "KafkaConsumerGroup",
        "metadata": {
            "self": _url(cluster, "/consumer-groups/ended"),
            "resource_name": f"crn:///kafka={cluster.cluster_id}/consumer-group=ended",
        },
        "cluster_id": cluster.cluster_id,
        "consumer_group_id": "ended",
        "is_simple": True,
        "partition_assignor": "",
        "state": "EMPTY",
        "type": "CLASSIC",
        "coordinator": {"related": _url(cluster, "/brokers/1")},
        "consumers": {"related": _url(cluster, "/consumer-groups/ended/consumers")},
        "lag_summary": {"related": _url(cluster, "/consumer-groups/ended/lag-summary")},
    }
    assert told in api.get(f"{cluster.path}/consumer-groups")["data"]
    lags = api.get(f"{group}/lags")
    assert [
        (one["partition_id"], one["current_offset"], one["log_end_offset"], one["lag"]) for one in lags["data"]
    ] == [
        (0, 3, 10, 7),
        (1, 0, 0, 0),
    ]
    assert api.get(f"{group}/lags/read/partitions/0") == lags["data"][0]
    summary = api.get(f"{group}/lag-summary")
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_partition_id"]) == (7, 7, 0)
    assert summary["max_lag_consumer_id"] == ""
    assert api.get(f"{group}/consumers")["data"] == []
    assert api.request("GET", f"{cluster.path}/consumer-groups/absent").status == 404
    assert api.request("DELETE", f"{cluster.path}/topics/read").status == 204


async def _while_consuming(cluster: Registered) -> None:
    async with (
        Client(parse_bootstrap(cluster.bootstrap)) as client,
        Consumer(client, group_id="alive", topics=["live"]) as consumer,
    ):
        while not consumer.assignment:
            await consumer.poll(0.1)
        await consumer.commit()
        await asyncio.to_thread(_look_at_the_living, cluster)


def _look_at_the_living(cluster: Registered) -> None:
    api, group = cluster.api, f"{cluster.path}/consumer-groups/alive"
    assert (api.get(group)["state"], api.get(group)["is_simple"]) == ("STABLE", False)
    (consumer,) = api.get(f"{group}/consumers")["data"]
    assert (consumer["kind"], consumer["client_id"], consumer["instance_id"]) == ("KafkaConsumer", "isthmus", None)
    member = f"{group}/consumers/{consumer['consumer_id']}"
    assert api.get(member) == consumer
    assignments = api.get(f"{member}/assignments")["data"]
    assert [one["partition_id"] for one in assignments] == [0, 1]
    assert api.get(f"{member}/assignments/live/partitions/1") == assignments[1]
    assert assignments[1]["lag"] == {"related": _url(cluster, "/consumer-groups/alive/lags/live/partitions/1")}
    assert {one["consumer_id"] for one in api.get(f"{group}/lags")["data"]} == {consumer["consumer_id"]}


def test_a_living_group(cluster: Registered) -> None:
    api = cluster.api
    assert api.request("POST", f"{cluster.path}/topics", {"topic_name": "live", "partitions_count": 2}).status == 201
    asyncio.run(_while_consuming(cluster))
    assert api.request("DELETE", f"{cluster.path}/topics/live").status == 204


def test_only_isthmus_reports_replica_status(isthmus: Registered, kafka: Registered) -> None:
    api = isthmus.api
    assert api.request("POST", f"{isthmus.path}/topics", {"topic_name": "status", "partitions_count": 1}).status == 201
    (one,) = api.get(f"{isthmus.path}/topics/status/partitions/0/replica-status")["data"]
    assert (one["is_leader"], one["is_observer"], one["is_in_isr"], one["log_end_offset"]) == (True, False, True, 0)
    assert one["last_caught_up_time_ms"] > 1_600_000_000_000
    named = {
        (each["topic_name"], each["partition_id"], each["broker_id"])
        for each in api.get(f"{isthmus.path}/topics/-/partitions/-/replica-status")["data"]
    }
    assert ("status", 0, 1) in named
    assert api.request("DELETE", f"{isthmus.path}/topics/status").status == 204
    assert api.request("POST", f"{kafka.path}/topics", {"topic_name": "status", "partitions_count": 1}).status == 201
    refused = api.request("GET", f"{kafka.path}/topics/status/partitions/-/replica-status")
    assert (refused.status, refused.body["error_code"]) == (400, 40035)
    assert api.request("DELETE", f"{kafka.path}/topics/status").status == 204


def test_replicas_by_region(cluster: Registered) -> None:
    api, topic = cluster.api, f"{cluster.path}/topics/by-region"
    assert (
        api.request("POST", f"{cluster.path}/topics", {"topic_name": "by-region", "partitions_count": 1}).status == 201
    )
    told = api.get(f"/api/v1/clusters/{cluster.cluster_id}/topics/by-region/replicas")
    ours = cluster.kind == "isthmus"
    lag = told["partitions"][0]["replicas"][0].pop("caught_up_lag_ms")
    assert (lag is not None) == ours
    assert told["partitions"] == [
        {
            "partition_id": 0,
            "leader": 1,
            "leader_epoch": 0,
            "replicas": [
                {
                    "broker_id": 1,
                    "region": "eu-west" if ours else "us-east",
                    "is_leader": True,
                    "is_in_isr": True,
                    "is_observer": False if ours else None,
                    "is_caught_up": True if ours else None,
                    "log_start_offset": 0 if ours else None,
                    "log_end_offset": 0 if ours else None,
                }
            ],
        }
    ]
    assert api.request("DELETE", topic).status == 204


def test_a_cluster_that_is_not_registered(isthmus: Registered) -> None:
    answer = isthmus.api.request("GET", "/kafka/v3/clusters/missing/topics")
    assert (answer.status, answer.body) == (404, {"error_code": 404, "message": "Cluster missing cannot be found."})
