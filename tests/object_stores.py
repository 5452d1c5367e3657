"""Servers with the APIs of S3 and Google Cloud Storage, in this process, for tests."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import boto3
import pytest
from gcp_storage_emulator.server import create_server
from isthmus_tier.edge.gcs_store import GcsStore
from isthmus_tier.edge.s3_store import S3Store
from moto.server import ThreadedMotoServer

from tests.ports import free_ports

BUCKET: Final = "tier"
_KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint of a server of S3's API, with a bucket, and credentials for it in the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in _KEYS.items():
            environment.setenv(name, value)
        endpoint = f"http://{host}:{port}"
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)
        try:
            yield endpoint
        finally:
            server.stop()


@contextmanager
def gcs_server() -> Iterator[str]:
    """The endpoint of a server of the API of Google Cloud Storage, with a bucket."""
    (port,) = free_ports(1)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


def fresh_s3_store(endpoint: str) -> S3Store:
    """A store below a prefix of its own."""
    return S3Store(BUCKET, f"{uuid.uuid4().hex}/", endpoint)


def fresh_gcs_store(endpoint: str) -> GcsStore:
    """A store below a prefix of its own."""
    return GcsStore(BUCKET, f"{uuid.uuid4().hex}/", endpoint)
