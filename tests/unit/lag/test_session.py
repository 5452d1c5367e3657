"""Errors of Spark, as people see them."""

from isthmus_lag.session import first_line


def test_the_error_of_the_data_source_is_the_first_line() -> None:
    text = "[PYTHON_DATA_SOURCE_ERROR] Failed.\nTraceback:\n  File x\nisthmus_lag.retained_range.SamplesLost: gone\n at"
    assert first_line(RuntimeError(text)) == "gone"


def test_otherwise_the_first_line_is() -> None:
    assert first_line(RuntimeError("\n no such master\n  at x.y")) == "no such master"
    assert first_line(KeyError()) == "KeyError"
