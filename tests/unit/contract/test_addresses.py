"""Addresses: one reader for who listens and who dials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.addresses import Address, read_address, read_replicas
from mn_contract.errors import InvalidInput

HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
PLACES = st.builds(Address, host=HOSTS, port=st.integers(1, 65535))


@given(PLACES)
def test_both_ends_read_an_address_alike(place: Address) -> None:
    assert read_address(str(place), "a") == place
    assert read_replicas(str(place), "a") == (place,)


@given(st.lists(PLACES, min_size=1, max_size=4), st.sampled_from([",", ", "]))
def test_replicas_keep_their_order(places: list[Address], separator: str) -> None:
    assert read_replicas(separator.join(map(str, places)), "a") == tuple(places)


@given(st.integers(65536, 10**7))
def test_a_port_that_is_none_is_never_another_port(port: int) -> None:
    with pytest.raises(InvalidInput):
        read_address(f"127.0.0.1:{port}", "a")
    with pytest.raises(InvalidInput):
        read_replicas(f"127.0.0.1:{port}", "a")


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "host",
        "host:",
        ":1",
        "host:x",
        "host:70000",
        "host:-1",
        "1:2:3:x",
        "host:" + "9" * 5000,
        " :5",
        "127.0.0.1:50052:3",
        "::1:50099",
        "[::1]",
        "[host]:5",
        "[127.0.0.1]:5",
        "[]:5",
        "host:\uff15\uff10",
        "unix:/tmp/x",
    ],
)
def test_malformed_addresses_are_refused_at_both_ends(bad: str) -> None:
    with pytest.raises(InvalidInput, match="MN_CONTEXT_ADDR"):
        read_address(bad, "MN_CONTEXT_ADDR")
    for several in (f"{bad},127.0.0.1:5", f"127.0.0.1:5,{bad}"):
        with pytest.raises(InvalidInput, match="MN_CONTEXT_ADDR"):
            read_replicas(several, "MN_CONTEXT_ADDR")


@pytest.mark.parametrize("several", ["127.0.0.1:1,127.0.0.1:2", "a,b:5", "host:5\n"])
def test_who_listens_takes_one_address_exactly(several: str) -> None:
    with pytest.raises(InvalidInput):
        read_address(several, "--address")


def test_port_0_is_for_listening_only() -> None:
    assert read_address("127.0.0.1:0", "--address").port == 0
    with pytest.raises(InvalidInput, match="port 0"):
        read_replicas("127.0.0.1:5,127.0.0.1:0", "MN_CONTEXT_ADDR")


def test_loopback_is_told_by_name_and_by_number() -> None:
    assert all(read_address(f"{host}:5", "a").loopback for host in ("[::1]", "127.0.0.1", "localhost"))
    assert not any(read_address(f"{host}:5", "a").loopback for host in ("example.org", "0.0.0.0", "[::]"))
