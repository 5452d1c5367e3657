"""A node responds to every exchange of the oracle as Apache Kafka did, except for the listed choices."""

from pathlib import Path

import pytest

from tests.conformance.oracle.choices import CHOICES
from tests.conformance.oracle.compare import differences, sort_out
from tests.conformance.oracle.exchanges import groups
from tests.conformance.oracle.recording import converse, load, load_choices
from tests.conformance.oracle.targets import isthmus


@pytest.mark.parametrize("name", groups())
def test_responses_are_those_of_apache_kafka(name: str, tmp_path: Path) -> None:
    group = groups()[name]
    with isthmus(group, tmp_path) as target:
        ours = converse(group, target)
    faults, unused = sort_out(name, differences(name, load(name), ours), load_choices())
    assert not faults, f"{len(faults)} differences:\n" + "\n".join(map(str, faults))
    assert not unused, f"choices that nothing shows any more: {unused}"


def test_every_choice_belongs_to_a_group() -> None:
    assert {choice.where.partition("/")[0] for choice in CHOICES} <= groups().keys()
