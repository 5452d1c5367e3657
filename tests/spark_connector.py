"""Spark's own Kafka connector, to compare our data source with: its jars by Maven coordinates, in the version of the pinned Spark.

`python -m tests.spark_connector` puts them into `.tools`; the registry is whatever Maven is configured with.
"""

import subprocess
from pathlib import Path
from typing import Final

import pyspark

HOME: Final = Path(__file__).parent.parent / ".tools" / f"spark-kafka-{pyspark.__version__}"
_COORDINATES: Final = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
    # Delegation tokens, which nothing here uses: the connector wants its classes, and not every mirror of Central has later ones.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    # As the connector's own description says; the rest of what it needs is in Spark.
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def fetch() -> list[Path]:
    """The jars; nothing is done when they are there."""
    HOME.mkdir(parents=True, exist_ok=True)
    for coordinates in _COORDINATES:
        _, artifact, version = coordinates.split(":")
        if not (HOME / f"{artifact}-{version}.jar").exists():
            goal = ["dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={HOME}"]
            subprocess.run(["mvn", "--quiet", "--batch-mode", *goal], check=True)
    return sorted(HOME.glob("*.jar"))


if __name__ == "__main__":
    print(*fetch(), sep="\n")
