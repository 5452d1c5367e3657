"""Java programs of tests, compiled by the Java that runs them: a runtime for Debian has the compiler, but no command for it."""

import os
import subprocess
from pathlib import Path

from tests.kafka import HOME, SHORT_LIVED_JVM


def compile_java(source: Path, classes: Path) -> None:
    """Compile one file into a folder."""
    compiler = ["java", *SHORT_LIVED_JVM, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-Werror", "-d", str(classes)]
    subprocess.run([*compiler, "-cp", class_path(), str(source)], check=True)


def class_path(*first: Path) -> str:
    """These folders, and the classes of Apache Kafka."""
    return os.pathsep.join(map(str, (*first, *sorted((HOME / "libs").glob("*.jar")))))
