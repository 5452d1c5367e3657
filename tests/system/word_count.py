"""A word count in Kafka Streams, unmodified, that uses the streams group protocol (KIP-1071)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer

from tests.java import class_path, compile_java
from tests.kafka import HOME, SHORT_LIVED_JVM
from tests.process import Process

INPUT: Final = "lines"
OUTPUT: Final = "counts"
WORDS: Final = ("west", "east", "north", "south", "up", "down", "left", "right")
_SOURCE: Final = Path(__file__).parent / "java" / "WordCount.java"
_JVM: Final = ("-Xmx256M", *SHORT_LIVED_JVM)


class WordCount(Process):
    """An instance of the application with two threads; `start` again after `kill` with the state on its disk."""

    def __init__(self, bootstrap: str, application: str, directory: Path, number: int) -> None:
        """All instances of a directory use the same classes."""
        super().__init__(directory / f"{application}-{number}.log")
        self._classes = directory / "classes"
        self._arguments = (bootstrap, application, str(directory / f"state-{number}"))

    def start(self) -> None:
        """Start without waiting."""
        if not self._classes.exists():
            compile_java(_SOURCE, self._classes)
        logging = f"-Dlog4j2.configurationFile={HOME / 'config' / 'log4j2.yaml'}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        command = ["java", *_JVM, logging, "-cp", class_path(self._classes), "WordCount", *self._arguments]
        self._spawn(command, environment, prints_ready=False)


class Counts:
    """The newest count of every word in the output."""

    def __init__(self, bootstrap: str) -> None:
        self.of_words: dict[str, int] = {}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "counts", "auto.offset.reset": "earliest", "log_level": 2}
        )
        self._consumer.subscribe([OUTPUT])

    def are(self, expected: Mapping[str, int]) -> bool:
        """Whether these are the counts, after what has arrived meanwhile."""
        for message in self._consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            self.of_words[key.decode()] = int(value)
        return self.of_words == expected

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


def send_lines(bootstrap: str, numbers: range) -> None:
    """Send a line for each number: every word whose index divides it."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for number in numbers:
        producer.produce(INPUT, key=str(number), value=" ".join(_words(number)))
    assert producer.flush(60) == 0


def expected_counts(numbers: range) -> dict[str, int]:
    """What the application must have counted after these lines."""
    counts = dict.fromkeys(WORDS, 0)
    for number in numbers:
        for word in _words(number):
            counts[word] += 1
    return counts


def _words(number: int) -> list[str]:
    return [word for index, word in enumerate(WORDS, 1) if number % index == 0]
