"""Addresses as users write them."""

import pytest
from isthmus_model.addresses import Address, parse_address, split_host_and_port
from isthmus_model.endpoints import Endpoint, parse_bootstrap


def test_bootstrap_servers() -> None:
    assert parse_bootstrap("a:1, b ,[::1]:2") == (Endpoint("a", 1), Endpoint("b", 9092), Endpoint("::1", 2))
    for text in ("", ",", ":1", "a:x", "a:0", "a:65536", "PLAINTEXT://a:1"):
        with pytest.raises(ValueError, match="write HOST:PORT"):
            parse_bootstrap(text)


def test_where_to_listen() -> None:
    assert parse_address("[::]:0") == Address("::", 0)
    assert str(parse_address("[::1]:80")) == "[::1]:80"
    for text in ("", "a", ":1", "a:x", "a:65536"):
        with pytest.raises(ValueError, match="write HOST:PORT"):
            parse_address(text)


def test_kafkas_own_form_may_have_a_protocol_and_no_host() -> None:
    assert split_host_and_port("PLAINTEXT://a_b:9092") == Address("a_b", 9092)
    assert split_host_and_port(":9092") == Address("", 9092)
    assert split_host_and_port("a:65536") is None
