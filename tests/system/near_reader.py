"""A consumer of partition 0 that says which broker it fetches from."""

import json

from confluent_kafka import Consumer, TopicPartition


class NearReader:
    """A consumer in a rack, that knows which broker it fetches from."""

    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        self.topic = topic
        self.values: list[bytes | None] = []
        self.fetches_from = -1
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"near-{rack}",
                "client.rack": rack,
                "auto.offset.reset": "error",
                "statistics.interval.ms": 50,
                "stats_cb": self._learn,
                "log_level": 2,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def _learn(self, text: str) -> None:
        partition = json.loads(text)["topics"].get(self.topic, {}).get("partitions", {}).get("0")
        if partition is not None:
            self.fetches_from = partition["broker"]

    def poll(self) -> None:
        for message in self._consumer.consume(1000, 0.05):
            assert message.error() is None, message.error()
            self.values.append(message.value())

    def has(self, count: int) -> bool:
        self.poll()
        return len(self.values) >= count

    def is_at(self, broker: int) -> bool:
        self.poll()
        return self.fetches_from == broker

    def close(self) -> None:
        self._consumer.close()
