"""JSON log lines."""

import json
import logging
import sys

import pytest
from isthmus_service.logs import FORMAT_VARIABLE, JsonLines, set_up_logs


def test_a_json_line_has_service_logger_and_exception() -> None:
    try:
        raise ValueError("no such region")
    except ValueError:
        record = logging.LogRecord("a.b", logging.WARNING, __file__, 1, "%s is down", ("west",), sys.exc_info())
    line = json.loads(JsonLines("linker").format(record))
    assert line["time"].endswith("+00:00")
    assert (line["level"], line["service"], line["logger"], line["message"]) == (
        "WARNING",
        "linker",
        "a.b",
        "west is down",
    )
    assert line["error"].endswith("ValueError: no such region")


def test_an_unknown_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "xml")
    with pytest.raises(ValueError, match="it must be text or json"):
        set_up_logs("node")
