"""Every setting is read by the broker, or a node that is given it says that it has no effect."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from isthmus_broker.core.config import definitions
from isthmus_broker.core.config.topic_config import TOPIC_SYNONYMS
from isthmus_broker.core.config.without_effect import messages_for, why_without_effect
from isthmus_model import constraints

BROKER = Path(definitions.__file__).parents[3]
CONFIG = BROKER / "core" / "config"
# The modules there that use settings; naming one in the others only declares, validates or describes it.
USERS = (CONFIG / "constraints.py", CONFIG / "listeners.py")
BOUND = re.compile(r"(group\.(?:consumer|streams)\.)(?:min|max)\.")
REPLICAS_MAX = "group.streams.max.standby.replicas"  # the bound of a setting with another name
OWN_NAMES = {value: name for name, value in vars(definitions.own).items() if isinstance(value, str) and name.isupper()}


def uses(tree: ast.AST) -> Iterator[str]:
    """Names as they are read: settings.some_name, values["some.name"], a constant SOME_NAME."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Name(id=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(text)):
                yield text


@pytest.fixture(scope="module")
def used() -> set[str]:
    found: set[str] = set()
    for path in (*BROKER.rglob("*.py"), Path(constraints.__file__)):
        if not path.is_relative_to(CONFIG) or path in USERS:
            found.update(uses(ast.parse(path.read_text())))
    node_config = ast.parse((CONFIG / "node_config.py").read_text())
    (topic_config,) = (
        node
        for node in ast.walk(ast.parse((CONFIG / "topic_config.py").read_text()))
        if isinstance(node, ast.ClassDef) and node.name == "TopicConfig"
    )
    for function in (*ast.walk(node_config), *ast.walk(topic_config)):
        if isinstance(function, ast.FunctionDef) and function.name != "with_embedded_defaults":
            found.update(uses(function))
    for name, synonyms in TOPIC_SYNONYMS.items():
        if name in found or name.replace(".", "_") in found:
            found.update(broker_name for broker_name, _ in synonyms)
    return found


@pytest.mark.parametrize("kind", ["BROKER_CONFIGS", "DYNAMIC_ONLY_BROKER_CONFIGS", "TOPIC_CONFIGS", "GROUP_CONFIGS"])
def test_every_setting_is_used_or_declared_without_effect(kind: str, used: set[str]) -> None:
    without, unread = [], []
    for name in getattr(definitions, kind):
        # A bound of a setting takes effect where the setting does.
        bounded = BOUND.sub(r"\1", name.replace(REPLICAS_MAX, "group.streams.num.standby.replicas"))
        is_used = any({one, one.replace(".", "_"), OWN_NAMES.get(one, one)} & used for one in (name, bounded))
        has_reason = why_without_effect(name) is not None
        if is_used and has_reason:
            without.append(name)
        if not is_used and not has_reason:
            unread.append(name)
    assert not unread, "these settings are accepted and do nothing: use them, or give the reason"
    assert not without, "these settings are read, and declared to have no effect"


def test_a_setting_without_effect_is_named_with_its_reason() -> None:
    assert messages_for(["node.id", "sasl.enabled.mechanisms", "queued.max.requests"]) == [
        "queued.max.requests has no effect: requests are not queued: a connection serves one at a time",
        "sasl.enabled.mechanisms has no effect: this release does not support TLS, SASL or authorisation",
    ]
