"""The store that a URL names."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from isthmus_tier.edge.local_store import LocalStore
from isthmus_tier.edge.store import ObjectStore


class UnknownStore(ValueError):
    """A URL that names no store, or one whose library is not installed."""


def open_store(url: str, endpoint: str | None = None, encryption: Mapping[str, str] | None = None) -> ObjectStore:
    """Open `file:///DIR`, `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`; raises UnknownStore.

    `endpoint` is the address of another server than Amazon's or Google's.
    """
    parts = urlsplit(url)
    prefix = parts.path.strip("/")
    prefix = f"{prefix}/" if prefix else ""
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return LocalStore(Path(parts.path))
    if parts.scheme not in ("s3", "gs") or not parts.netloc:
        raise UnknownStore(f"{url!r} is not a store: use file:///DIR, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX")
    try:
        if parts.scheme == "gs":
            from isthmus_tier.edge.gcs_store import GcsStore

            return GcsStore(parts.netloc, prefix, endpoint)
        from isthmus_tier.edge.s3_store import S3Store
    except ImportError as error:
        raise UnknownStore(f"{url}: {error}; install the extra: pip install 'isthmus[tier]'") from error
    return S3Store(parts.netloc, prefix, endpoint, encryption)
