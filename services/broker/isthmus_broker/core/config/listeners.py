"""Listeners: bound and advertised addresses, and the security protocol of each name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

from isthmus_broker.core.config.addresses import Voter
from isthmus_broker.core.config.values import ConfigRefused, Value

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ANY_PORT: Final = 0
WILDCARD: Final = "0.0.0.0"

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})")
_COMMA = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True)
class Listener:
    """A named endpoint. An empty host means every interface."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listeners of one node, checked against its roles."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    """The advertised listeners, without those of controllers."""
    advertised_to_controllers: tuple[Listener, ...]
    controller_names: tuple[str, ...]
    inter_broker: str
    protocols: Mapping[str, str]

    @property
    def of_brokers(self) -> tuple[Listener, ...]:
        return tuple(listener for listener in self.bound if listener.name not in self.controller_names)

    @property
    def of_controllers(self) -> tuple[Listener, ...]:
        return tuple(listener for listener in self.bound if listener.name in self.controller_names)


def parse_protocol_map(text: str) -> dict[str, str]:
    """listener.security.protocol.map: NAME:PROTOCOL pairs."""
    key = "listener.security.protocol.map"
    protocols = {}
    for pair in _COMMA.split(text) if text else ():
        name, colon, protocol = pair.rpartition(":")
        if not colon:
            raise ConfigRefused(f"Error parsing configuration property '{key}': no colon in '{pair}'")
        if protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise ConfigRefused(f"Invalid security protocol `{protocol.strip()}` defined in {key}")
        protocols[_normalised(name.strip())] = protocol.strip().upper()
    return protocols


def _normalised(name: str) -> str:
    if not name.strip():
        raise ConfigRefused("The provided listener name is null or empty string")
    return name.upper()


def effective_protocols(
    mapped: Mapping[str, str], map_is_given: bool, listeners: Sequence[str], controller_names: Sequence[str]
) -> dict[str, str]:
    """Controller listeners use PLAINTEXT by default, if neither a mapping nor a listener has another protocol."""
    protocols = dict(mapped)
    names = [*controller_names, *(entry.partition(":")[0].upper() for entry in listeners)]
    secured = any(name in SECURITY_PROTOCOLS and name != "PLAINTEXT" for name in names)
    if not map_is_given and not secured:
        for name in controller_names:
            protocols.setdefault(name, "PLAINTEXT")
    return protocols


def parse_listeners(
    entries: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool
) -> tuple[Listener, ...]:
    try:
        parsed = tuple(_parse_listener(entry, protocols) for entry in entries)
        if len({listener.name for listener in parsed}) != len(parsed):
            raise ConfigRefused(f"Each listener must have a different name, listeners: {_shown(entries)}")
        if distinct_ports:
            _check_ports(parsed, entries)
    except ConfigRefused as refusal:
        raise ConfigRefused(f"Error creating broker listeners from '{_shown(entries)}': {refusal}") from None
    return parsed


def _shown(entries: Sequence[str]) -> str:
    return f"[{', '.join(entries)}]"


def _parse_listener(entry: str, protocols: Mapping[str, str]) -> Listener:
    match = _ENDPOINT.fullmatch(entry)
    if match is None:
        raise ConfigRefused(f"Unable to parse {entry} to a broker endpoint")
    name = _normalised(match[1])
    if name not in protocols:
        raise ConfigRefused(f"No security protocol defined for listener {name}")
    return Listener(name, protocols[name], match[2], int(match[3]))


def _check_ports(listeners: Sequence[Listener], entries: Sequence[str]) -> None:
    """A port is for one listener, or for two if one is bound to an IPv4 and the other to an IPv6 address."""
    by_port: dict[int, list[Listener]] = defaultdict(list)
    for listener in listeners:
        if listener.port != ANY_PORT:
            by_port[listener.port].append(listener)
    for port, sharing in sorted(by_port.items()):
        if len(sharing) == 1:
            continue
        versions = sorted(version for listener in sharing if (version := _ip_version(listener.host)))
        if len(versions) < 2:
            raise ConfigRefused(f"Each listener must have a different port, listeners: {_shown(entries)}")
        if len(sharing) == 2 and versions == [4, 6]:
            continue
        raise ConfigRefused(
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
            f"listeners: {_shown(entries)}, port: {port}"
        )


def _ip_version(host: str) -> int | None:
    try:
        return ip_address(host).version
    except ValueError:
        return None


def resolve_listeners(values: Mapping[str, Value], given: Mapping[str, str], voters: Sequence[Voter]) -> Listeners:
    """The listeners from a node's typed settings; `given` contains those that were set."""
    listeners, controller_names = _names(values, "listeners"), _names(values, "controller.listener.names")
    map_text = values["listener.security.protocol.map"]
    assert isinstance(map_text, str)
    map_is_given = "listener.security.protocol.map" in given
    protocols = effective_protocols(parse_protocol_map(map_text), map_is_given, listeners, controller_names)
    bound = parse_listeners(listeners, protocols, distinct_ports=True)
    advertised = bound
    if values["advertised.listeners"] is not None:
        advertised = parse_listeners(_names(values, "advertised.listeners"), protocols, distinct_ports=False)
    node_id = values["node.id"]
    assert isinstance(node_id, int)
    return Listeners(
        bound=bound,
        advertised=tuple(listener for listener in advertised if listener.name not in controller_names),
        advertised_to_controllers=_controller_endpoints(bound, advertised, controller_names, voters, node_id),
        controller_names=controller_names,
        inter_broker=_inter_broker(values, given, protocols),
        protocols=protocols,
    )


def _controller_endpoints(
    bound: Sequence[Listener],
    advertised: Sequence[Listener],
    controller_names: Sequence[str],
    voters: Sequence[Voter],
    node_id: int,
) -> tuple[Listener, ...]:
    """The endpoints for other controllers: the advertised one, else the bound one, else this voter's own address."""
    endpoints = []
    for position, name in enumerate(controller_names):
        endpoint = next((listener for listener in (*advertised, *bound) if listener.name == name.upper()), None)
        if endpoint is None:
            continue
        own = next((voter.address for voter in voters if voter.node_id == node_id), None)
        if endpoint in bound and endpoint.host in ("", WILDCARD):
            endpoint = replace(endpoint, host="")
            if position == 0 and own is not None:
                endpoint = replace(endpoint, host=own.host, port=own.port)
        endpoints.append(endpoint)
    return tuple(endpoints)


def _inter_broker(values: Mapping[str, Value], given: Mapping[str, str], protocols: Mapping[str, str]) -> str:
    name, protocol = values["inter.broker.listener.name"], values["security.inter.broker.protocol"]
    assert isinstance(protocol, str)
    if name is None:
        return protocol
    assert isinstance(name, str)
    if "security.inter.broker.protocol" in given:
        raise ConfigRefused("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    if _normalised(name) not in protocols:
        raise ConfigRefused(
            f"Listener with name {name.upper()} defined in inter.broker.listener.name "
            "not found in listener.security.protocol.map."
        )
    return name.upper()


def _names(values: Mapping[str, Value], key: str) -> tuple[str, ...]:
    value = values[key]
    assert isinstance(value, tuple)
    return value
