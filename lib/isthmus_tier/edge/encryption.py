"""Envelope encryption: every segment has a key of its own, which is stored in its manifest, encrypted with a key of the operator's.

The operator's keys are in a file, one on each line: a name and 32 bytes in base64. The first encrypts; all decrypt, so that a new key can
be put before the others at any time. AES-256-GCM with the number of the chunk as its nonce; the key wrap is that of RFC 3394.
"""

import os
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from isthmus_tier.core.chunks import WrongKey
from isthmus_tier.core.manifest import WrappedKey

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class BadKeys(ValueError):
    """A file of keys that cannot be used."""


class SegmentCipher:
    """Encrypts the chunks of one segment. What belongs to another segment, or to another place in this one, does not decrypt."""

    def __init__(self, key: bytes, segment: UUID) -> None:
        self._cipher = AESGCM(key)
        self._segment = segment.bytes

    def encrypt(self, number: int, data: bytes) -> bytes:
        return self._cipher.encrypt(_nonce(number), data, self._segment)

    def decrypt(self, number: int, data: bytes) -> bytes:
        try:
            return self._cipher.decrypt(_nonce(number), data, self._segment)
        except InvalidTag as error:
            raise WrongKey(f"chunk {number} was encrypted with another key") from error


class Encryption(NamedTuple):
    """The cipher of a segment, and its key for the manifest."""

    cipher: SegmentCipher
    key: WrappedKey


class KeyRing:
    """The operator's keys by name, the first of them for what is encrypted from now on."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(keys)

    def for_new(self, segment: UUID) -> Encryption:
        """A fresh key for a segment."""
        name, ours = next(iter(self._keys.items()))
        data_key = os.urandom(KEY_BYTES)
        return Encryption(SegmentCipher(data_key, segment), WrappedKey(name, aes_key_wrap(ours, data_key)))

    def for_stored(self, segment: UUID, key: WrappedKey) -> SegmentCipher:
        """The cipher of a segment with this key in its manifest; raises WrongKey."""
        ours = self._keys.get(key.wrapped_by)
        if ours is None:
            raise WrongKey(f"it needs the key {key.wrapped_by!r}, which the file of keys does not have")
        try:
            return SegmentCipher(aes_key_unwrap(ours, key.data), segment)
        except InvalidUnwrap as error:
            raise WrongKey(
                f"the key {key.wrapped_by!r} in the file of keys is not the one that it was encrypted with"
            ) from error


def read_keys(path: Path) -> KeyRing:
    """Read a file of keys; raises BadKeys."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadKeys(f"cannot read the keys in {path}: {error}") from error
    keys: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, key = _key_of(line, f"{path}, line {number}")
        if name in keys:
            raise BadKeys(f"{path}, line {number}: there is another key of the name {name!r}")
        keys[name] = key
    if not keys:
        raise BadKeys(f"{path} has no key; add a line with a name and the output of 'openssl rand -base64 {KEY_BYTES}'")
    return KeyRing(keys)


def _key_of(line: str, where: str) -> tuple[str, bytes]:
    words = line.split()
    if len(words) != 2:
        raise BadKeys(f"{where}: not a name and a key")
    try:
        key = b64decode(words[1], validate=True)
    except ValueError as error:
        raise BadKeys(f"{where}: the key is not base64") from error
    if len(key) != KEY_BYTES:
        raise BadKeys(f"{where}: the key has {len(key)} bytes, not {KEY_BYTES}")
    return words[0], key


def _nonce(number: int) -> bytes:
    """A number is used once: a segment's chunks are written once under its key."""
    return number.to_bytes(_NONCE_BYTES, "big")
