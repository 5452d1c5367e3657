"""What the command line's words mean."""

import re

import pytest
from isthmus_cli.record_format import as_json, compile_format, split_line
from isthmus_cli.reset_plan import clamped, parse_datetime, parse_duration, parse_scope, read_plan, write_plan
from isthmus_client.consumer import ConsumedRecord
from isthmus_client.metadata import TopicPartition
from isthmus_wire.records import Record

RECORD = ConsumedRecord(TopicPartition("t", 3), Record(5, 70, b"k", b"v\xff", (("a", b"1"), ("b", None))))


def test_scopes() -> None:
    assert parse_scope(["a", "b:0,2", "b:1"]) == {"a": None, "b": {0, 1, 2}}
    assert parse_scope(["a:1", "a"]) == {"a": None}
    assert parse_scope(["a", "a:1"]) == {"a": None}
    for wrong in ("", ":1", "a:", "a:1,", "a:x"):
        with pytest.raises(ValueError, match="expected TOPIC or TOPIC:0,1,2"):
            parse_scope([wrong])


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T01:00:00.5+01:00", 500),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_times(text: str, milliseconds: int) -> None:
    assert parse_datetime(text) == milliseconds


def test_durations() -> None:
    assert parse_duration("P1DT2H3M4.5S") == 93_784_500
    assert parse_duration("-PT1S") == -1000
    for wrong in ("", "P", "PT", "1H", "P1M", "PT1"):
        with pytest.raises(ValueError, match="expected a duration such as PT1H30M"):
            parse_duration(wrong)


def test_plans_come_back() -> None:
    plan = {TopicPartition("b", 0): 7, TopicPartition("a", 1): 0}
    assert write_plan(plan) == "a,1,0\nb,0,7\n"
    assert read_plan('\n"a",1,0\n b , 0 , 7\n') == plan
    with pytest.raises(ValueError, match="line 2: expected topic,partition,offset, got 'a,1'"):
        read_plan("a,1,0\na,1\n")


def test_offsets_are_clamped_to_what_exists() -> None:
    assert [clamped(wanted, 3, 9) for wanted in (-5, 3, 5, 9, 10)] == [3, 3, 5, 9, 9]


def test_formats() -> None:
    assert compile_format(r"%t-%p@%o %T\t%k=%v [%h] 100%%\n")(RECORD) == b"t-3@5 70\tk=v\xff [a=1,b=] 100%\n"
    with pytest.raises(ValueError, match=re.escape("'%q' is unknown")):
        compile_format("%q")


def test_json_keeps_bytes_that_are_no_text() -> None:
    assert as_json(RECORD) == {
        "topic": "t",
        "partition": 3,
        "offset": 5,
        "timestamp": 70,
        "key": "k",
        "value_base64": "dv8=",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }


def test_lines() -> None:
    assert split_line(b"a:b:c", None, None) == (None, b"a:b:c")
    assert split_line(b"a:b:c", b":", None) == (b"a", b"b:c")
    assert split_line(b"a:NULL", b":", b"NULL") == (b"a", None)
    assert split_line(b"NULL:x", b":", b"NULL") == (None, b"x")
    with pytest.raises(ValueError, match="a line without the key separator ':'"):
        split_line(b"abc", b":", None)
