"""A log line for machines."""

import json
import logging
import sys

import pytest
from isthmus_service.logs import FORMAT_VARIABLE, JsonLines, set_up_logs


def test_a_line_of_json_tells_service_logger_and_what_was_raised() -> None:
    try:
        raise ValueError("no such region")
    except ValueError:
        record = logging.LogRecord("a.b", logging.WARNING, __file__, 1, "%s is away", ("west",), sys.exc_info())
    line = json.loads(JsonLines("linker").format(record))
    assert line["time"].endswith("+00:00")
    assert (line["level"], line["service"], line["logger"], line["message"]) == (
        "WARNING",
        "linker",
        "a.b",
        "west is away",
    )
    assert line["error"].endswith("ValueError: no such region")


def test_a_format_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "xml")
    with pytest.raises(ValueError, match="it must be text or json"):
        set_up_logs("node")
