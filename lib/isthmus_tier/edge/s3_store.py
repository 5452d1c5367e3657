"""Objects in a bucket of S3, or of a server that has its API. Credentials and region come from boto3's usual places."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from isthmus_tier.edge.parts import PART_BYTES, parts_of
from isthmus_tier.edge.store import Missing, Refused, Stored, StoreError

R = TypeVar("R")
CONNECT_SECONDS: Final = 5
RESPONSE_SECONDS: Final = 30
ATTEMPTS: Final = 3
CONNECTIONS: Final = 32

_MISSING: Final = frozenset({"NoSuchKey", "404"})
_REFUSED: Final = frozenset(
    {"AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket", "PermanentRedirect"}
)
_BEYOND_END: Final = "InvalidRange"
_GONE: Final = "NoSuchUpload"


class S3Store:
    """A bucket, or what is below a prefix of it. `encryption` are fields of PutObject, such as ServerSideEncryption."""

    def __init__(
        self, bucket: str, prefix: str = "", endpoint: str | None = None, encryption: Mapping[str, str] | None = None
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._encryption = dict(encryption or {})
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=RESPONSE_SECONDS,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
            max_pool_connections=CONNECTIONS,
            s3={"addressing_style": "auto" if endpoint is None else "path"},
            # Objects have checksums of their own, and servers other than Amazon's often refuse these.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        self._client: Any = boto3.client("s3", endpoint_url=endpoint, config=config)

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        parts = parts_of(pieces)
        first = next(parts)
        if len(first) < PART_BYTES:
            self._call(name, self._client.put_object, Body=first, **self._encryption)
        else:
            self._put_parts(name, first, parts)

    def _put_parts(self, name: str, first: bytes, rest: Iterator[bytes]) -> None:
        upload = self._call(name, self._client.create_multipart_upload, **self._encryption)["UploadId"]
        try:
            done = [self._put_part(name, upload, 1, first)]
            done += [self._put_part(name, upload, number, part) for number, part in enumerate(rest, 2)]
            self._call(name, self._client.complete_multipart_upload, UploadId=upload, MultipartUpload={"Parts": done})
        except BaseException:
            with suppress(StoreError):  # `discard_unfinished` tries again
                self._call(name, self._client.abort_multipart_upload, UploadId=upload)
            raise

    def _put_part(self, name: str, upload: str, number: int, part: bytes) -> dict[str, Any]:
        done = self._call(name, self._client.upload_part, UploadId=upload, PartNumber=number, Body=part)
        return {"ETag": done["ETag"], "PartNumber": number}

    def get(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        if size == 0:
            return b""
        end = "" if size is None else position + size - 1
        part = {} if (position, size) == (0, None) else {"Range": f"bytes={position}-{end}"}

        def read(**fields: Any) -> bytes:
            body: bytes = self._client.get_object(**fields, **part)["Body"].read()
            return body

        try:
            return self._call(name, read)
        except _BeyondEnd:
            return b""

    def delete(self, name: str) -> None:
        with suppress(Missing):
            self._call(name, self._client.delete_object)

    def list(self, prefix: str) -> Iterator[Stored]:
        for page in self._pages("list_objects_v2", Prefix=self._prefix + prefix):
            for each in page.get("Contents", ()):
                yield Stored(each["Key"][len(self._prefix) :], each["Size"], _milliseconds(each["LastModified"]))

    def discard_unfinished(self, before_ms: int) -> None:
        for page in self._pages("list_multipart_uploads", Prefix=self._prefix):
            for upload in page.get("Uploads", ()):
                if _milliseconds(upload["Initiated"]) < before_ms:
                    name = upload["Key"][len(self._prefix) :]
                    with suppress(Missing):
                        self._call(name, self._client.abort_multipart_upload, UploadId=upload["UploadId"])

    def close(self) -> None:
        self._client.close()

    def _pages(self, operation: str, **fields: Any) -> Iterator[Mapping[str, Any]]:
        pages = iter(self._client.get_paginator(operation).paginate(Bucket=self._bucket, **fields))
        while (page := self._checked("", lambda: next(pages, None))) is not None:
            yield page

    def _call(self, name: str, operation: Callable[..., R], **fields: Any) -> R:
        return self._checked(name, lambda: operation(Bucket=self._bucket, Key=self._prefix + name, **fields))

    def _checked(self, name: str, call: Callable[[], R]) -> R:
        """Make a call; raises the StoreError for its failure."""
        try:
            return call()
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            raise _class_of(code)(f"{self}: {name}: {error}") from error
        except NoCredentialsError as error:
            raise Refused(f"{self}: {name}: {error}") from error
        except BotoCoreError as error:
            raise StoreError(f"{self}: {name}: {error}") from error


class _BeyondEnd(StoreError):
    """The range begins after the end of the object."""


def _class_of(code: str) -> type[StoreError]:
    if code == _BEYOND_END:
        return _BeyondEnd
    if code in _MISSING or code == _GONE:
        return Missing
    return Refused if code in _REFUSED else StoreError


def _milliseconds(time: Any) -> int:
    return int(time.timestamp() * 1000)
