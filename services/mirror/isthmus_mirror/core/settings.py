"""`mm2.properties`: clusters, the flows between them, and their settings, named as MirrorMaker names them.

A setting of a flow (`A->B.topics`) overrides the same setting of all flows (`topics`). Unsupported settings are listed in
`warnings`; invalid ones are refused with their line.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from isthmus_model.properties import Entry, parse_properties

from isthmus_mirror.core.limits import TRANSACTION_MS
from isthmus_mirror.core.naming import Naming

V = TypeVar("V")
_ALIAS: Final = re.compile(r"[A-Za-z0-9._-]+?")
_INTEGER_MAX: Final = 2**31 - 1
DEFAULT_TOPICS_EXCLUDE: Final = r".*[\-\.]internal, .*\.replica, __.*"
DEFAULT_GROUPS_EXCLUDE: Final = r"console-consumer-.*, connect-.*, __.*"
DEFAULT_CONFIGS_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms, log\.message\.timestamp\.after\.max\.ms, "
    r"message\.timestamp\.before\.max\.ms, message\.timestamp\.after\.max\.ms, "
    r"message\.timestamp\.type, unclean\.leader\.election\.enable, min\.insync\.replicas"
)
"""MirrorMaker's exclusions, and the timestamp bounds, since a copy's records keep their timestamps."""
_POLICIES: Final = {"DefaultReplicationPolicy": False, "IdentityReplicationPolicy": True}
_POLICY_PACKAGE: Final = "org.apache.kafka.connect.mirror."
_PLAINTEXT: Final = "PLAINTEXT"
_WITHOUT_EFFECT: Final = re.compile(
    r"((?P<scope>.+?)\.)?(sync\.topic\.acls\..*|tasks\.max|use\.defaults\.from|admin\.timeout\.ms|forwarding\.admin\.class|"
    r"consumer\.poll\.timeout\.ms|topic\.filter\.class|group\.filter\.class|config\.property\.filter\.class|"
    r"(source\.|target\.)?(producer|consumer|admin)\..*|dedicated\.mode\..*|transaction\.boundary|"
    r"(offset|status|config)\.storage\..*|offset\.flush\..*|listeners|(key|value|header)\.converter.*|config\.providers.*|"
    r"ssl\..*|sasl\..*|security\..*|(add|metric|metrics)\..*|topics\.blacklist|groups\.blacklist)"
)


class SettingsRefused(Exception):
    """The file is invalid; the message has the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """A flow from one cluster to another. The interval of a disabled feature is 0."""

    source: str
    target: str
    enabled: bool
    naming: Naming
    topics: re.Pattern[str]
    topics_exclude: re.Pattern[str]
    groups: re.Pattern[str]
    groups_exclude: re.Pattern[str]
    configs_exclude: re.Pattern[str]
    replication_factor: int
    """The copies' replication factor; -1 means the target's default."""
    syncs_replication_factor: int
    checkpoints_replication_factor: int
    heartbeats_replication_factor: int
    refresh_topics_seconds: int
    sync_configs_seconds: int
    checkpoints_seconds: int
    sync_groups_seconds: int
    heartbeats_seconds: int
    replicate_heartbeats: bool
    emit_offset_syncs: bool
    offset_syncs_at_source: bool
    offset_lag_max: int
    read_committed: bool
    begin_at_end: bool
    transaction_ms: int
    """The duration of the transactions of the target that copies are written in; 0 for copies that only mirrors write."""

    @property
    def name(self) -> str:
        """The flow's name, as in the file."""
        return f"{self.source}->{self.target}"

    @property
    def topic_choice(self) -> bytes:
        """Identifies the choice of topics, which all mirrors that share the flow must agree on."""
        return f"{self.topics.pattern}\n{self.topics_exclude.pattern}".encode()

    @property
    def is_transactional(self) -> bool:
        """Whether copies are written in transactions, and may have other writers."""
        return self.transaction_ms > 0

    def takes_topic(self, topic: str) -> bool:
        """Whether a topic of the source is copied."""
        if self.naming.refuses(topic):
            return False
        if self.naming.is_heartbeats(topic):
            return self.replicate_heartbeats
        return self.topics.fullmatch(topic) is not None and self.topics_exclude.fullmatch(topic) is None

    def takes_group(self, group: str) -> bool:
        """Whether a group's offsets are translated."""
        return self.groups.fullmatch(group) is not None and self.groups_exclude.fullmatch(group) is None


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The whole file."""

    bootstrap: Mapping[str, str]
    """By the cluster's alias."""
    flows: tuple[FlowSettings, ...]
    """The flows between every two clusters; disabled ones carry only heartbeats, as in MirrorMaker."""
    warnings: tuple[str, ...]


def read_settings(text: str) -> MirrorSettings:
    """Raises SettingsRefused."""
    try:
        entries = parse_properties(text)
    except ValueError as error:
        raise SettingsRefused(str(error)) from error
    return _Reader({key: Entry(entry.value.strip(), entry.line) for key, entry in entries.items()}).all()


class _Reader:
    def __init__(self, given: Mapping[str, Entry]) -> None:
        self._given = given
        self._used: set[str] = set()

    def all(self) -> MirrorSettings:
        aliases = self._aliases()
        bootstrap = {alias: self._bootstrap(alias) for alias in aliases}
        flows = tuple(self._flow(one, other) for one in aliases for other in aliases if one != other)
        if not any(flow.enabled for flow in flows):
            example = "->".join(aliases[:2])
            raise SettingsRefused(f"no flow is enabled; write for example '{example}.enabled = true'")
        self._refuse_circles(flows)
        self._refuse_security()
        return MirrorSettings(bootstrap, flows, tuple(self._warnings(aliases)))

    def _aliases(self) -> list[str]:
        entry = self._entry("clusters")
        if entry is None:
            raise SettingsRefused("'clusters' is missing; write for example 'clusters = west, east'")
        aliases = [alias.strip() for alias in entry.value.split(",") if alias.strip()]
        if len(aliases) < 2 or len(set(aliases)) != len(aliases):
            raise SettingsRefused(f"line {entry.line}: 'clusters' must have two or more distinct names")
        for alias in aliases:
            if _ALIAS.fullmatch(alias) is None:
                raise SettingsRefused(f"line {entry.line}: a topic's name cannot contain the alias '{alias}'")
        return aliases

    def _bootstrap(self, alias: str) -> str:
        entry = self._entry(f"{alias}.bootstrap.servers")
        if entry is None or not entry.value:
            raise SettingsRefused(f"'{alias}.bootstrap.servers' is missing")
        return entry.value

    def _flow(self, source: str, target: str) -> FlowSettings:
        read = _FlowReader(self, source, target)
        enabled = self._flag_of(f"{source}->{target}.enabled")
        naming = Naming(
            source,
            target,
            read.value("replication.policy.separator", ".", str),
            read.value("replication.policy.class", False, _policy),
            read.flag("replication.policy.internal.topic.separator.enabled", True),
        )
        if not naming.separator:
            raise SettingsRefused("'replication.policy.separator' must not be empty")
        factor = read.number("replication.factor", -1, -1)
        is_transactional = read.at_target("exactly.once.source.support", False, _support)
        flow = FlowSettings(
            source=source,
            target=target,
            enabled=enabled,
            naming=naming,
            topics=read.patterns("topics", ".*"),
            topics_exclude=read.patterns("topics.exclude", DEFAULT_TOPICS_EXCLUDE),
            groups=read.patterns("groups", ".*"),
            groups_exclude=read.patterns("groups.exclude", DEFAULT_GROUPS_EXCLUDE),
            configs_exclude=read.patterns("config.properties.exclude", DEFAULT_CONFIGS_EXCLUDE),
            replication_factor=factor,
            syncs_replication_factor=read.number("offset-syncs.topic.replication.factor", factor, -1),
            checkpoints_replication_factor=read.number("checkpoints.topic.replication.factor", factor, -1),
            heartbeats_replication_factor=read.number("heartbeats.topic.replication.factor", factor, -1),
            refresh_topics_seconds=read.period("refresh.topics", True, 600),
            sync_configs_seconds=read.period("sync.topic.configs", True, 600),
            checkpoints_seconds=read.period("emit.checkpoints", True, 60),
            sync_groups_seconds=read.period("sync.group.offsets", False, 60),
            heartbeats_seconds=read.period("emit.heartbeats", True, 1),
            replicate_heartbeats=read.flag("heartbeats.replication.enabled", True),
            emit_offset_syncs=read.flag("emit.offset-syncs.enabled", True),
            offset_syncs_at_source=read.value("offset-syncs.topic.location", True, _location),
            offset_lag_max=read.number("offset.lag.max", 100, 0),
            read_committed=read.client("isolation.level", is_transactional, _isolation),
            begin_at_end=read.client("auto.offset.reset", False, _reset),
            transaction_ms=read.at_target("transaction.boundary.interval.ms", TRANSACTION_MS, _interval)
            if is_transactional
            else 0,
        )
        if is_transactional and not flow.read_committed:
            raise SettingsRefused(
                f"'{flow.name}' writes in transactions (exactly.once.source.support) and cannot read uncommitted records: "
                "remove 'isolation.level'"
            )
        return flow

    def _entry(self, key: str) -> Entry | None:
        self._used.add(key)
        return self._given.get(key)

    def first_of(self, keys: Iterable[str], default: V, parse: Callable[[str], V]) -> V:
        """The first of these keys that is set; raises SettingsRefused for an invalid value."""
        entries = [(key, entry) for key in keys if (entry := self._entry(key)) is not None]
        if not entries:
            return default
        key, entry = entries[0]
        try:
            return parse(entry.value)
        except ValueError as error:
            raise SettingsRefused(f"line {entry.line}: '{key}' {error}") from error

    def _flag_of(self, key: str) -> bool:
        return self.first_of([key], False, _flag)

    def _refuse_circles(self, flows: Iterable[FlowSettings]) -> None:
        """Refuse opposite flows of the same topics under identity naming, unless in transactions: they would mix copies with originals."""
        mixing = (flow for flow in flows if flow.enabled and flow.naming.identity and not flow.is_transactional)
        enabled = {(flow.source, flow.target): flow for flow in mixing}
        for (source, target), flow in enabled.items():
            back = enabled.get((target, source))
            if back is not None and back.topics.pattern == flow.topics.pattern:
                raise SettingsRefused(
                    f"'{flow.name}' and '{back.name}' copy the same topics to each other under the same names: "
                    "give them different 'topics', set 'exactly.once.source.support = enabled', or use DefaultReplicationPolicy"
                )

    def _refuse_security(self) -> None:
        for key, entry in self._given.items():
            if key.endswith("security.protocol") and entry.value.upper() != _PLAINTEXT:
                raise SettingsRefused(f"line {entry.line}: '{key}' is {entry.value}; only PLAINTEXT is supported")

    def _warnings(self, aliases: Iterable[str]) -> Iterable[str]:
        for key, entry in self._given.items():
            if key in self._used or key.endswith("security.protocol"):
                continue
            known = _WITHOUT_EFFECT.fullmatch(key) is not None
            what = "is not supported and has no effect" if known else "is unknown and has no effect"
            yield f"line {entry.line}: '{key}' {what}"


class _FlowReader:
    """Settings of one flow: its own, or else those of all flows."""

    def __init__(self, reader: _Reader, source: str, target: str) -> None:
        self._reader = reader
        self._source = source
        self._target = target
        self._flow = f"{source}->{target}"

    def value(self, key: str, default: V, parse: Callable[[str], V]) -> V:
        return self._reader.first_of((f"{self._flow}.{key}", key), default, parse)

    def flag(self, key: str, default: bool) -> bool:
        return self.value(key, default, _flag)

    def number(self, key: str, default: int, least: int) -> int:
        return self.value(key, default, lambda text: _number(text, least))

    def period(self, key: str, enabled: bool, seconds: int) -> int:
        """The interval of an optional feature; 0 if disabled."""
        interval = self.number(f"{key}.interval.seconds", seconds, -1)
        return max(interval, 0) if self.flag(f"{key}.enabled", enabled) else 0

    def patterns(self, key: str, default: str) -> re.Pattern[str]:
        return self.value(key, _patterns(default), _patterns)

    def at_target(self, key: str, default: V, parse: Callable[[str], V]) -> V:
        """A setting of the flow, of all flows to its target, or of all."""
        return self._reader.first_of((f"{self._flow}.{key}", f"{self._target}.{key}", key), default, parse)

    def client(self, key: str, default: V, parse: Callable[[str], V]) -> V:
        """A setting of the consumer of the source."""
        scopes = (f"{self._flow}.", f"{self._source}.", "")
        keys = (f"{scope}{side}consumer.{key}" for scope in scopes for side in ("source.", ""))
        return self._reader.first_of(keys, default, parse)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not '{text}'")
    return text.lower() == "true"


def _number(text: str, least: int) -> int:
    if not re.fullmatch(r"-?[0-9]{1,10}", text) or not least <= int(text) <= _INTEGER_MAX:
        raise ValueError(f"must be an integer of at least {least}, not '{text}'")
    return int(text)


def _patterns(text: str) -> re.Pattern[str]:
    """A list of regular expressions; one must match the whole name."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        try:
            re.compile(part)
        except re.error as error:
            raise ValueError(f"has '{part}', which is not a regular expression: {error}") from error
    return re.compile("|".join(f"(?:{part})" for part in parts) or r"(?!)")


def _policy(text: str) -> bool:
    name = text.removeprefix(_POLICY_PACKAGE)
    if name not in _POLICIES:
        raise ValueError(f"must be {' or '.join(_POLICIES)}, not '{text}'")
    return _POLICIES[name]


def _choice(text: str, choices: Mapping[str, bool]) -> bool:
    if text not in choices:
        raise ValueError(f"must be {' or '.join(choices)}, not '{text}'")
    return choices[text]


def _location(text: str) -> bool:
    return _choice(text, {"source": True, "target": False})


def _isolation(text: str) -> bool:
    return _choice(text, {"read_committed": True, "read_uncommitted": False})


def _support(text: str) -> bool:
    return _choice(text, {"enabled": True, "disabled": False, "preparing": False})


def _interval(text: str) -> int:
    return _number(text, 1)


def _reset(text: str) -> bool:
    return _choice(text, {"latest": True, "earliest": False})
