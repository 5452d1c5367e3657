"""The rules that a node's settings must satisfy together, in Kafka's order and with Kafka's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from isthmus_broker.core.config.addresses import Voter
from isthmus_broker.core.config.definitions.broker_quorum import LINKER_ROLE
from isthmus_broker.core.config.definitions.own import REMOTE_STORE
from isthmus_broker.core.config.listeners import WILDCARD, Listeners
from isthmus_broker.core.config.topic_config import HOUR_MS, MINUTE_MS
from isthmus_broker.core.config.values import ConfigRefused, Value

_CLEANER_BYTES_PER_THREAD: Final = 1 << 20
ALL_LOG_DIRS: Final = "*"

# Group settings with bounds from two others: name, lower bound, upper bound.
_GROUP_BOUNDS: Final = tuple(
    (f"group.{kind}.{what}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")
    for kind in ("consumer", "share", "streams")
    for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
)


class _Values:
    """Typed settings, read with the type from their definition."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def number(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple)
        return value

    def milliseconds(self, *names: tuple[str, int]) -> int:
        """The first of several units that is set, converted to milliseconds by its factor."""
        value, factor = next((self._values[name], factor) for name, factor in names if self._values[name] is not None)
        assert isinstance(value, int)
        return value * factor


def require(condition: bool, message: str) -> None:
    """Require a condition. Kafka's messages mostly have this prefix."""
    demand(condition, f"requirement failed: {message}")


def demand(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigRefused(message)


def check_node(
    values: Mapping[str, Value],
    given: Mapping[str, str],
    listeners: Listeners,
    voters: Sequence[Voter],
    log_dirs: Sequence[str],
) -> None:
    typed = _Values(values)
    node_id = typed.number("node.id")
    demand(node_id == typed.number("broker.id"), "You must set `node.id` to the same value as `broker.id`.")
    _check_groups(typed)
    _check_log(typed)
    _check_replication(typed)
    roles = typed.texts("process.roles")
    require(LINKER_ROLE not in roles or "broker" in roles, "The linker role of process.roles needs the broker role.")
    _check_quorum(typed, node_id, roles, listeners, voters)
    demand(
        "broker" not in roles or not values["remote.log.storage.system.enable"] or bool(values[REMOTE_STORE]),
        f"remote.log.storage.system.enable=true needs {REMOTE_STORE}, such as file:///DIR or s3://BUCKET/PREFIX",
    )
    if "broker" in roles:
        _check_advertised(listeners)
        _check_cordoned(typed.texts("cordoned.log.dirs"), log_dirs)
    advertised = (*listeners.advertised, *listeners.advertised_to_controllers)
    require(
        all(listener.host != WILDCARD for listener in advertised),
        f"advertised.listeners cannot use the nonroutable meta-address {WILDCARD}. Use a routable IP address.",
    )
    _check_network(typed, values)


def _check_groups(typed: _Values) -> None:
    protocols = typed.texts("group.coordinator.rebalance.protocols")
    demand("classic" in protocols, "Disabling the 'classic' protocol is not supported.")
    for name, low, high in _GROUP_BOUNDS:
        demand(typed.number(high) >= typed.number(low), f"{high} must be greater than or equal to {low}")
        demand(typed.number(name) >= typed.number(low), f"{name} must be greater than or equal to {low}")
        demand(typed.number(name) <= typed.number(high), f"{name} must be less than or equal to {high}")
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        demand(typed.number(heartbeat) < typed.number(session), f"{heartbeat} must be less than {session}")
    assignors = typed.texts("group.share.assignors")
    demand(
        len(assignors) == 1,
        f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}",
    )
    standby, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    demand(typed.number(standby) <= typed.number(most), f"{standby} must be less than or equal to {most}")


def _check_log(typed: _Values) -> None:
    roll_ms = typed.milliseconds(("log.roll.ms", 1), ("log.roll.hours", HOUR_MS))
    require(roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    jitter_ms = typed.milliseconds(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS))
    require(jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    retention_ms = typed.milliseconds(
        ("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)
    )
    require(retention_ms != 0, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    per_thread = typed.number("log.cleaner.dedupe.buffer.size") // typed.number("log.cleaner.threads")
    require(
        per_thread > _CLEANER_BYTES_PER_THREAD,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _check_replication(typed: _Values) -> None:
    wait_ms = typed.number("replica.fetch.wait.max.ms")
    require(
        wait_ms <= typed.number("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms"
        " to prevent unnecessary socket timeouts",
    )
    require(
        wait_ms <= typed.number("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
        " to prevent frequent changes in ISR",
    )


def _check_quorum(
    typed: _Values, node_id: int, roles: Sequence[str], listeners: Listeners, voters: Sequence[Voter]
) -> None:
    demand(
        bool(voters or typed.texts("controller.quorum.bootstrap.servers")),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
        "controllers or controller.quorum.voters must contain a parseable set of controllers.",
    )
    voter_ids = [voter.node_id for voter in voters]
    shown = f"controller.quorum.voters=Set({', '.join(map(str, voter_ids))})"
    if "controller" not in roles:
        require(
            node_id not in voter_ids,
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included"
            f" in the set of voters {shown}",
        )
        _check_listeners_of_broker(listeners)
        return
    require(
        not voter_ids or node_id in voter_ids,
        f"If process.roles contains the 'controller' role, the node id {node_id} must be included"
        f" in the set of voters {shown}",
    )
    _check_listeners_of_controller(listeners, alone="broker" not in roles)


def _check_listeners_of_broker(listeners: Listeners) -> None:
    require(
        not listeners.of_controllers,
        "controller.listener.names must not contain a value appearing in the 'listeners' configuration"
        " when running KRaft with just the broker role",
    )
    for name in listeners.controller_names:
        demand(
            name.upper() in listeners.protocols,
            f"Controller listener with name {name.upper()} defined in controller.listener.names not found in"
            " listener.security.protocol.map  (an explicit security mapping for each controller listener is required"
            " if listener.security.protocol.map is non-empty, or if there are security protocols other than"
            " PLAINTEXT in use)",
        )


def _check_listeners_of_controller(listeners: Listeners, *, alone: bool) -> None:
    role = "when running the KRaft controller role"
    if alone:
        require(
            len(listeners.advertised_to_controllers) == len(listeners.bound),
            "The listeners config must only contain KRaft controller listeners from controller.listener.names"
            " when process.roles=controller",
        )
    require(
        bool(listeners.advertised_to_controllers),
        f"controller.listener.names must contain at least one value appearing in the 'listeners' configuration {role}",
    )
    bound = {listener.name for listener in listeners.bound}
    require(
        all(name in bound for name in listeners.controller_names),
        f"controller.listener.names must only contain values appearing in the 'listeners' configuration {role}",
    )


def _check_advertised(listeners: Listeners) -> None:
    advertised = sorted({listener.name for listener in listeners.advertised})
    bound = sorted({listener.name for listener in listeners.bound})
    require(
        bool(advertised),
        "There must be at least one broker advertised listener."
        " Perhaps all listeners appear in controller.listener.names?",
    )
    require(
        listeners.inter_broker in advertised,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners."
        f" The valid options based on currently configured listeners are {','.join(advertised)}",
    )
    require(
        set(advertised) <= set(bound),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners."
        f" Found {','.join(advertised)}. The valid options based on the current configuration are {','.join(bound)}",
    )


def _check_cordoned(cordoned: Sequence[str], log_dirs: Sequence[str]) -> None:
    if ALL_LOG_DIRS in cordoned:
        require(len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values")
        return
    unknown = [folder for folder in cordoned if folder not in log_dirs]
    require(
        not unknown,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir."
        f" Missing entries : {', '.join(unknown)}",
    )


def _check_network(typed: _Values, values: Mapping[str, Value]) -> None:
    queued = typed.number("queued.max.request.bytes")
    require(
        queued <= 0 or queued >= typed.number("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = values["max.connections.per.ip.overrides"]
    assert isinstance(overrides, str)
    require(
        typed.number("max.connections.per.ip") != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    delay_ms, idle_ms = (
        typed.number("connection.failed.authentication.delay.ms"),
        typed.number("connections.max.idle.ms"),
    )
    require(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than"
        f" connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out",
    )
