"""Kafka's text of a UUID: base64 with the URL alphabet, without padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def uuid_text(value: UUID) -> str:
    """22 characters."""
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """The UUID of such a text. Raises ValueError."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))
