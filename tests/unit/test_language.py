"""The language check finds what it bans, in every kind of text."""

import pytest

from tests.language import check_file, check_lines, check_prose, check_python, files

MODULE = '''"""What is {0} here."""
import logging

METRIC = "isthmus_{1}_total"


class {2}:
    """Names."""

    def {3}(self) -> None:
        """Do it."""
        # A {4} comment.
        logging.warning("the {5} request failed")
'''
CLEAN = ("checked", "requests", "Source", "report", "plain", "first")


def words(*parts: str) -> list[str]:
    return [finding.word for finding in check_python("lib/module.py", MODULE.format(*parts))]


def test_a_clean_module_has_no_findings() -> None:
    assert words(*CLEAN) == []


@pytest.mark.parametrize(
    ("place", "planted", "word"),
    [
        (0, "told", "told"),
        (1, "told", "told"),
        (2, "WarySource", "Wary"),
        (3, "upkeep", "upkeep"),
        (4, "somebody", "somebody"),
        (5, "answered", "answered"),
    ],
)
def test_a_planted_word_is_found(place: int, planted: str, word: str) -> None:
    parts = list(CLEAN)
    parts[place] = planted
    assert words(*parts) == [word]


def test_a_name_of_a_module_or_a_variable_is_found() -> None:
    assert [finding.word for finding in check_python("lib/evidence.py", '"""A subject."""\ntold = 1\n')] == [
        "evidence",
        "told",
    ]


def test_documents_are_checked_outside_of_code_and_quotes() -> None:
    document = "The broker goes on.\n\n    it asks again in code\n\nThe field `told` is Kafka's.\n```\nnobody\n```\n"
    assert [(finding.line, finding.word) for finding in check_lines("docs/page.md", document)] == [(1, "goes on")]


def test_words_inside_others_do_not_count() -> None:
    assert not list(check_prose("x.py", 1, "a task, the answerable one, in sightseeing"))


@pytest.mark.parametrize("folder", ["lib", "api", "services", "bench", "infra", "scripts", "tests", "web", "*.md"])
def test_the_repository_uses_the_words_of_the_glossary(folder: str) -> None:
    findings = [str(finding) for path in files(folder) for finding in check_file(path)]
    assert not findings, "\n".join(findings)
