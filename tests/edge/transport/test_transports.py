"""The seam below the Kafka protocol: the same listener, connection and client over TLS."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from isthmus_broker.core.connection_quota import ConnectionLimits
from isthmus_broker.edge.transport.admission import Admission
from isthmus_broker.edge.transport.budget import Budget
from isthmus_broker.edge.transport.connection import Request
from isthmus_broker.edge.transport.listener import Listener, ListenerSettings
from isthmus_client.clock import monotonic_ms
from isthmus_client.connection import Connection
from isthmus_client.errors import ConnectionFailed
from isthmus_model.endpoints import Endpoint, SecurityProtocol
from isthmus_wire.apis import ApiKey

SETTINGS = ListenerSettings(frame_max=10_000_000, idle_ms=600_000, backlog=50)
LARGE = bytes(range(256)) * 20_000


class TlsListener:
    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    async def accept(self, accepted: socket.socket, connection: asyncio.BaseProtocol) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted, ssl=self._context)


class TlsClient:
    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    async def connect(self, endpoint: Endpoint, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Transport:
        assert endpoint.security is SecurityProtocol.SSL
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(protocol, endpoint.host, endpoint.port, ssl=self._context)
        return transport


def echo(request: Request) -> None:
    request.reply(bytes(request.frame[request.header.size :]))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files: list[str | Path] = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return certificate, key


def test_the_kafka_protocol_over_tls(certificate: tuple[Path, Path]) -> None:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(*certificate)
    trusted = ssl.create_default_context(cafile=str(certificate[0]))

    async def run() -> None:
        admission = Admission(ConnectionLimits(), monotonic_ms)
        listener = Listener("TLS", SETTINGS, admission, Budget(), echo, transport=TlsListener(served))
        await listener.bind("127.0.0.1", 0)
        await listener.accept()
        endpoint = Endpoint("127.0.0.1", listener.port, SecurityProtocol.SSL)
        stalled = socket.create_connection(("127.0.0.1", listener.port))  # does not block other connections
        try:
            connection = Connection(endpoint, "test", transports=TlsClient(trusted))
            await connection.connect()
            for body in (b"first", LARGE, b"last"):
                frame, start = await connection.exchange(ApiKey.METADATA, 1, (body,))
                assert bytes(frame[start:]) == body
            connection.close()
            untrusting = Connection(endpoint, "test", transports=TlsClient(ssl.create_default_context()))
            with pytest.raises(ConnectionFailed, match="cannot connect"):
                await untrusting.connect()
        finally:
            stalled.close()
            await listener.stop()

    asyncio.run(run())


def test_a_security_protocol_without_configuration_is_refused_by_name() -> None:
    async def run() -> None:
        endpoint = Endpoint("127.0.0.1", 9092, SecurityProtocol.SASL_SSL)
        with pytest.raises(ConnectionFailed, match=r"cannot connect to 127\.0\.0\.1:9092: SASL_SSL is not configured"):
            await Connection(endpoint, "test").connect()

    asyncio.run(run())
