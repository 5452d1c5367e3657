"""ApiVersions: what is served, in every version, and versions and client names that are not accepted."""

import struct
from typing import Any

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk

GROUP = Group()
_OURS: dict[str, Any] = {"client_software_name": "oracle", "client_software_version": "1.0"}


@GROUP.exchange
def every_version(talk: Talk) -> None:
    talk.ask_each(ApiKey.API_VERSIONS, **_OURS)


@GROUP.exchange
def unknown_versions(talk: Talk) -> None:
    for version in (5, 99, -1, 32767):
        header = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1)
        talk.raw(f"version {version}", struct.pack(">i", len(header)) + header)


@GROUP.exchange
def software_names(talk: Talk) -> None:
    for name, version in (
        ("", "1"),
        ("a", ""),
        ("a b", "1"),
        ("-a", "1"),
        ("a.", "1"),
        ("a.b-c", "1.0-x"),
        ("ä", "1"),
        ("a", "v_1"),
    ):
        talk.ask(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=version)
        talk.ask(ApiKey.API_VERSIONS, 4, client_software_name=name, client_software_version=version)


@GROUP.exchange
def twice_on_one_connection(talk: Talk) -> None:
    talk.ask(ApiKey.API_VERSIONS, 4, **_OURS)
    talk.ask(ApiKey.API_VERSIONS, 0)
