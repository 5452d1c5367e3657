"""How the command starts."""

import subprocess
import sys

import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_an_interpreter_without_assertions_is_refused() -> None:
    result = run("-O", "-c", "from isthmus_cli.main import main; main()")
    assert result.returncode == 1
    assert result.stderr == "isthmus: do not run with python -O: it removes the checks that protect your data\n"


def test_the_command_line_alone_imports_neither_the_client_nor_the_broker() -> None:
    code = (
        "import sys, isthmus_cli.main\n"
        "print([m for m in ('isthmus_client', 'isthmus_broker.edge', 'isthmus_wire.messages', 'kio', 'uvloop') if m in sys.modules])"
    )
    assert run("-c", code).stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["topic", "list", "-b", "x:y"], "is not an address"),
        (["topic", "create", "t", "--config", "novalue"], "expected KEY=VALUE"),
        (["topic", "create", "t", "-p", "1", "--replica-assignment", "1"], "it determines partitions"),
        (["topic", "alter", "t"], "nothing to change"),
        (["group", "reset-offsets", "g", "--to-latest"], "give either --topic or --all-topics"),
        (["group", "reset-offsets", "g", "--topic", "t"], "give exactly one of --to-earliest"),
        (["config", "describe", "broker", "x"], "expected a broker id"),
        (["consume", "t", "--from-beginning", "--from-offset", "1"], "give one of"),
        (["consume", "t", "--format", "%q"], "is unknown; known are"),
        (["consume", "t", "--isolation-level", "committed"], "is not one of"),
        (["produce", "t", "--transactional-id", "id", "--acks", "1"], "transactions need acks=all"),
        (
            ["transaction", "abort", "t", "-p", "0", "--producer-id", "7"],
            "give --start-offset, or all of --producer-id",
        ),
        (["transaction", "abort", "t", "-p", "0", "--start-offset", "1", "--producer-id", "7"], "not both"),
        (["transaction", "find-hanging"], "give --topic, --broker-id, or both"),
        (["transaction", "find-hanging", "--broker-id", "1", "-p", "0"], "a partition of --topic, which is missing"),
    ],
)
def test_invalid_command_lines_exit_with_status_2(arguments: list[str], says: str) -> None:
    result = run("-c", "from isthmus_cli.main import main; main()", *arguments)
    assert result.returncode == 2
    assert says in " ".join(result.stderr.replace("│", " ").split())


def test_a_cluster_that_is_not_there_ends_with_status_1_and_one_line() -> None:
    result = run("-c", "from isthmus_cli.main import main; main()", "topic", "list", "-b", "127.0.0.1:1")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == "isthmus: no broker can be reached: cannot connect to 127.0.0.1:1: Connection refused\n"
