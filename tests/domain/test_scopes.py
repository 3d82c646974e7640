"""What a role has, and what a credential passes on of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.core.resources import RESOURCES, SCOPED, Resource
from portico.core.scopes import (
    PERMISSIONS,
    READ_SCOPES,
    ROLE_SCOPES,
    SCOPE_WORDS,
    SCOPES,
    effective,
)
from portico.core.users import ROLES

TABLE = {
    "viewer": {"read:users", "read:products"},
    "editor": {"read:users", "read:products", "write:products"},
    "admin": {"read:users", "write:users", "read:products", "write:products", "verify", "admin"},
}
granted_scopes = st.frozensets(st.sampled_from([*SCOPES, "openid", "write:everything"]))


def test_every_role_has_exactly_its_scopes() -> None:
    assert ROLE_SCOPES == TABLE
    assert set(ROLE_SCOPES) == set(ROLES)
    assert set(SCOPES) == TABLE["admin"]
    assert {scope for scope in SCOPES if scope.startswith("read:")} == READ_SCOPES


def test_scopes_stand_in_their_order_and_each_has_words() -> None:
    """The order is that in which a token spells them."""
    ours = ["read:users", "write:users", "read:products", "write:products", "verify", "admin"]
    assert ours == SCOPES
    assert all(SCOPE_WORDS[scope] for scope in SCOPES)


@given(st.sampled_from(ROLES), granted_scopes)
def test_a_credential_never_gives_more_than_the_role_has_or_than_was_granted(
    role: str, granted: frozenset[str]
) -> None:
    scopes = effective(role, granted)
    assert scopes <= ROLE_SCOPES[role]
    if "admin" in granted:
        assert scopes == ROLE_SCOPES[role]
    else:
        assert scopes == ROLE_SCOPES[role] & granted


@pytest.mark.parametrize("role", ROLES)
def test_a_credential_without_a_grant_of_its_own_carries_all_of_its_user(role: str) -> None:
    assert effective(role, None) == ROLE_SCOPES[role]
    assert effective(role, frozenset()) == frozenset()


def test_what_an_installation_adds_is_in_every_container_until_it_is_removed() -> None:
    before = dict(ROLE_SCOPES), list(SCOPES), set(READ_SCOPES), list(RESOURCES), list(SCOPED)
    orders = Resource(
        path="orders", title="Orders", about="What was ordered.", plural="orders",
        see="See orders", change="Change orders", readers=("viewer",), writers=("editor",),
    )  # fmt: skip
    try:
        PERMISSIONS.add_resource(orders)
        PERMISSIONS.add("read:invoices", "See invoices", ["editor"], reads=True)
        PERMISSIONS.add_role("support", ["read:orders"])
        with pytest.raises(ValueError, match="exists"):
            PERMISSIONS.add_resource(orders)
        with pytest.raises(ValueError, match="exists"):
            PERMISSIONS.add_role("viewer", [])
        added = {"read:orders", "write:orders", "read:invoices"}
        order = ["read:orders", "write:orders", "read:invoices", "verify", "admin"]
        assert [*before[1][:-2], *order] == SCOPES
        assert before[2] | {"read:orders", "read:invoices"} == READ_SCOPES
        assert {
            "viewer": TABLE["viewer"] | {"read:orders"},
            "editor": TABLE["editor"] | {"write:orders", "read:invoices"},
            "admin": TABLE["admin"] | added,
            "support": {"read:orders"},
        } == ROLE_SCOPES
        assert orders in RESOURCES
        assert orders in SCOPED
    finally:
        PERMISSIONS.only_built_in()
    assert before == (ROLE_SCOPES, SCOPES, READ_SCOPES, RESOURCES, SCOPED)
