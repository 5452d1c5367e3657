"""The base of the keys and values of __consumer_offsets, in the form of kio's message classes."""

from typing import Any, ClassVar

from isthmus_wire.messages import encode_entity


def kafka_type(name: str, tag: int | None = None) -> dict[str, Any]:
    """A field's metadata: its type on the wire, and its number if it is tagged."""
    return {"kafka_type": name} | ({} if tag is None else {"tag": tag})


class Entity:
    """A key, or a value that has only one version."""

    __slots__ = ()
    prefix: ClassVar[int] = 0

    def body(self) -> bytes:
        """Encode with the entity's own class."""
        return encode_entity(self)
