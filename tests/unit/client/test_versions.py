"""The choice of an API's version."""

import pytest
from isthmus_client.errors import NotSupported
from isthmus_client.versions import Versions
from isthmus_wire.apis import ApiKey

OLD = Versions("old:1", [(ApiKey.METADATA, 0, 7), (ApiKey.PRODUCE, 0, 2), (ApiKey.FETCH, 4, 99)])


def test_the_highest_common_version_is_chosen() -> None:
    assert OLD.choose(ApiKey.METADATA) == 7
    assert OLD.choose(ApiKey.FETCH) == 18
    assert OLD.choose(ApiKey.FETCH, at_most=12) == 12


def test_ranges_that_do_not_meet_are_refused() -> None:
    with pytest.raises(NotSupported, match="offers PRODUCE versions 0 to 2; version 3 or newer is needed"):
        OLD.choose(ApiKey.PRODUCE)
    with pytest.raises(NotSupported, match="offers METADATA versions 0 to 7; version 8 or newer"):
        OLD.choose(ApiKey.METADATA, at_least=8)
    with pytest.raises(NotSupported, match="offers DELETE_GROUPS not at all"):
        OLD.choose(ApiKey.DELETE_GROUPS)
    assert not OLD.supports(ApiKey.DELETE_GROUPS)
    assert OLD.supports(ApiKey.METADATA)
