"""What our own messages have in common: they look to the codec as kio's classes do. All their versions are flexible."""

from typing import ClassVar

from kio.static.constants import EntityType


class Nested:
    """A structure inside a message."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True


class Message(Nested):
    """A request or a response, which says so in its `__type__`."""

    __slots__ = ()
    __api_key__: ClassVar[int]
