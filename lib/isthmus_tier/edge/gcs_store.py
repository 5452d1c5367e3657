"""Objects in a bucket of Google Cloud Storage. Credentials come from the library's usual places."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from google.api_core.exceptions import (
    Forbidden,
    GoogleAPIError,
    NotFound,
    RequestRangeNotSatisfiable,
    Unauthorized,
)
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud import storage
from requests import RequestException

from isthmus_tier.edge.parts import PART_BYTES, parts_of
from isthmus_tier.edge.store import Missing, Refused, Stored, StoreError

R = TypeVar("R")
SECONDS: Final = 30
"""For a connection, and for a response."""


class GcsStore:
    """A bucket, or what is below a prefix of it."""

    def __init__(self, bucket: str, prefix: str = "", endpoint: str | None = None) -> None:
        """At an endpoint of one's own, requests have no credentials."""
        self._prefix = prefix
        self._name = bucket
        if endpoint is None:
            self._client: Any = self._checked("", storage.Client)
        else:
            options = {"api_endpoint": endpoint}
            self._client = storage.Client(project="isthmus", client_options=options, use_auth_w_custom_endpoint=False)
        self._bucket = self._client.bucket(bucket)

    def __str__(self) -> str:
        return f"gs://{self._name}/{self._prefix}"

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        blob = self._blob(name)
        parts = parts_of(pieces)
        first = next(parts)
        if len(first) < PART_BYTES:
            self._checked(name, lambda: blob.upload_from_string(first, timeout=SECONDS))
            return
        writer = blob.open("wb", chunk_size=PART_BYTES, timeout=SECONDS)
        try:
            for part in chain([first], parts):
                self._checked(name, partial(writer.write, part))
            self._checked(name, writer.close)
        except BaseException:
            writer.terminate()  # closing it would complete the object
            raise

    def get(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        if size == 0:
            return b""
        end = None if size is None else position + size - 1
        blob = self._blob(name)

        def read() -> bytes:
            try:
                data: bytes = blob.download_as_bytes(
                    start=position or None, end=end, raw_download=True, checksum=None, timeout=SECONDS
                )
            except RequestRangeNotSatisfiable:
                return b""
            return data

        return self._checked(name, read)

    def delete(self, name: str) -> None:
        with suppress(Missing):
            self._checked(name, lambda: self._blob(name).delete(timeout=SECONDS))

    def list(self, prefix: str) -> Iterator[Stored]:
        blobs = iter(self._client.list_blobs(self._bucket, prefix=self._prefix + prefix, timeout=SECONDS))
        while (blob := self._checked("", lambda: next(blobs, None))) is not None:
            written_ms = int(blob.time_created.timestamp() * 1000)
            yield Stored(blob.name[len(self._prefix) :], blob.size, written_ms)

    def discard_unfinished(self, before_ms: int) -> None:
        """Google deletes unfinished objects after a week."""

    def close(self) -> None:
        self._client.close()

    def _blob(self, name: str) -> Any:
        return self._bucket.blob(self._prefix + name)

    def _checked(self, name: str, call: Callable[[], R]) -> R:
        """Make a call; raises the StoreError for its failure."""
        try:
            return call()
        except NotFound as error:
            raise Missing(f"{self}: {name}: {error.message}") from error
        except (Forbidden, Unauthorized) as error:
            raise Refused(f"{self}: {name}: {error.message}") from error
        except DefaultCredentialsError as error:
            raise Refused(f"{self}: {error}") from error
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            raise StoreError(f"{self}: {name}: {error}") from error
