"""What a new key may be, and what it is told when it may not."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import NOON
from portico.core.errors import BrokenRule, Invalid
from portico.core.networks import admitting, covers, network
from portico.core.scopes import READ_SCOPES, ROLE_SCOPES, SCOPES
from portico.core.times import DAY, moment
from portico.core.users import ROLES
from portico.features.access.rules import Bounds, NewKey, agreed

SUBSETS = [frozenset(some) for size in range(1, 6) for some in combinations(SCOPES, size)]


def bounds(**values: Any) -> Bounds:
    facts: dict[str, Any] = {
        "role": "admin",
        "elsewhere": {"test": "https://localhost:8443/sandbox/v1"},
        "now": NOON,
        "most_days": None,
    }
    return Bounds(**{**facts, **values})


def asked(**values: Any) -> NewKey:
    return NewKey(**{"name": "Shop", "type": "live", **values})


def faults(new: NewKey, within: Bounds) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        agreed(new, within)
    return {fault.field: fault.message for fault in refused.value.details}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("key_type", ["live", "read"])
def test_a_key_is_given_some_of_its_owners_scopes_and_no_more(role: str, key_type: str) -> None:
    has = ROLE_SCOPES[role] & (READ_SCOPES if key_type == "read" else frozenset(SCOPES))
    for subset in SUBSETS:
        new = asked(type=key_type, scopes=sorted(subset))
        if subset <= has:
            assert agreed(new, bounds(role=role)).scopes == subset
        else:
            assert faults(new, bounds(role=role)).keys() == {"scopes"}


@given(st.sampled_from(SUBSETS), st.none() | st.sampled_from(SUBSETS), st.sampled_from(ROLES))
def test_no_key_carries_more_than_what_makes_it(
    carried: frozenset[str], wanted: frozenset[str] | None, role: str
) -> None:
    within = bounds(role=role, carried=carried)
    new = asked(scopes=None if wanted is None else sorted(wanted))
    try:
        scopes = agreed(new, within).scopes
    except Invalid:
        return
    assert scopes is not None
    assert "admin" in carried or scopes <= carried


def test_a_key_that_only_reads_is_given_of_what_makes_it_what_reads() -> None:
    within = bounds(carried=frozenset({"read:products", "write:products"}))
    assert agreed(asked(type="read"), within).scopes == frozenset({"read:products"})


def test_a_key_is_used_where_what_makes_it_is() -> None:
    within = bounds(networks=("10.0.0.0/9", "10.128.0.0/9", "2001:db8::/32"))
    assert agreed(asked(), within).networks == within.networks
    inner = ["10.0.0.0/8", "10.1.2.3", "2001:db8::1"]
    assert agreed(asked(networks=inner), within).networks == tuple(inner)
    outer = ["10.0.0.0/7", "0.0.0.0/0", "::/0", "11.0.0.0", "10.0.0.0/9"]
    assert faults(asked(networks=outer), within).keys() == {f"networks.{n}" for n in range(4)}


@pytest.mark.parametrize(
    ("wanted", "most_days", "ends_at", "kept"),
    [
        (None, None, None, None),
        (NOON + 1, None, None, NOON + 1),
        (NOON, None, None, "future"),
        (NOON + 7 * DAY, 7, None, NOON + 7 * DAY),
        (NOON + 7 * DAY + 1, 7, None, "7 days"),
        (None, 7, NOON + DAY, NOON + DAY),
        (None, 7, NOON + 9 * DAY, NOON + 7 * DAY),
        (NOON + DAY + 1, None, NOON + DAY, "expiry of the key"),
        ("2026-03-15T13:00:00.001+01:00", None, None, NOON + 1),
        ("tomorrow", None, None, "a time such as"),
    ],
)
def test_a_key_ends_in_time(
    wanted: str | int | None, most_days: int | None, ends_at: int | None, kept: int | str | None
) -> None:
    within = bounds(most_days=most_days, ends_at=ends_at)
    if isinstance(kept, str):
        assert kept in faults(asked(expires_at=wanted), within)["expires_at"]
    else:
        assert agreed(asked(expires_at=wanted), within).expires_at == kept


@pytest.mark.parametrize(
    ("text", "spelled"),
    [("192.0.2.7", "192.0.2.7"), ("10.0.0.0/8", "10.0.0.0/8"), ("2001:DB8:0::/32", "2001:db8::/32"),
     ("::ffff:192.0.2.7", "192.0.2.7"), ("::ffff:0:0/96", "0.0.0.0/0")],
)  # fmt: skip
def test_a_network_has_one_spelling(text: str, spelled: str) -> None:
    assert network(text) == spelled


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1/8", "2001:db8::1/64", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/255.0.0.0",
     "fe80::1%eth0", "localhost", "10.1", "1", "", "10.0.0.0/", "/8", "::ffff:10.0.0.1/104"],
)  # fmt: skip
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(BrokenRule, match="without bits set beyond its prefix"):
        network(text)


@given(st.integers(0, 32), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_an_address_is_in_a_network_by_its_first_bits(prefix: int, place: int, number: int) -> None:
    def dotted(value: int) -> str:
        return ".".join(str(byte) for byte in value.to_bytes(4, "big"))

    mask = (2**32 - 1) ^ (2 ** (32 - prefix) - 1)
    text = f"{dotted(place & mask)}/{prefix}"
    inside = number & mask == place & mask
    admits = admitting([text])
    for peer in (dotted(number), f"::ffff:{dotted(number)}", f"[::ffff:{dotted(number)}]"):
        assert admits(peer) is inside
    assert covers([text], dotted(number)) is inside


def test_a_moment_is_read_to_the_millisecond() -> None:
    assert moment("2026-03-15T12:00:00Z") == NOON
    assert moment("2026-03-15t12:00:00.123456789z") == NOON + 123
    for text in ("2027-01-31", "2027-01-31T08:15:30", "2027-02-30T08:15:30Z", "1", "",
                 "2027-01-31T24:00:61Z", "2027-01-31T08:15:30+24:00", "٢٠٢٧-01-31T08:15:30Z",
                 "9999-12-31T23:59:59-23:59"):  # fmt: skip
        with pytest.raises(BrokenRule, match="must be a time"):
            moment(text)
