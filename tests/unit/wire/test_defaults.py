"""Values of fields that the version on the wire does not have."""

from isthmus_wire.apis import ApiKey
from isthmus_wire.messages import decode_request, encode_request, request_class


def test_numbers_and_booleans_missing_in_an_old_version_are_zero() -> None:
    whole = request_class(ApiKey.DESCRIBE_GROUPS)(groups=("g",), include_authorized_operations=True)
    old = decode_request(ApiKey.DESCRIBE_GROUPS, 2, encode_request(ApiKey.DESCRIBE_GROUPS, 2, whole))
    assert old.include_authorized_operations is False
    assert old.groups == ("g",)


def test_an_old_list_offsets_reads_uncommitted() -> None:
    body = b"\xff\xff\xff\xff\0\0\0\0"
    assert decode_request(ApiKey.LIST_OFFSETS, 1, body).isolation_level == 0
