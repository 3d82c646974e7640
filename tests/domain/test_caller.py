"""Whether a caller may."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.core.caller import Principal, may_read, require, require_method
from portico.core.errors import PermissionDenied
from portico.core.scopes import READ_SCOPES, ROLE_SCOPES, SCOPES
from portico.core.users import ROLES

METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "get", ""]

EDITOR = Principal(
    user_id=7, email="ada@example.com", name="Ada", role="editor", plan="free",
    scopes=ROLE_SCOPES["editor"], read_only=False, credential="api_key", credential_id=1,
    expires_at=None,
)  # fmt: skip


@given(
    st.sampled_from(ROLES),
    st.frozensets(st.sampled_from(SCOPES)),
    st.sampled_from(["any method", "GET and HEAD"]),
    st.sampled_from([*SCOPES, None]),
    st.sampled_from(METHODS),
)
def test_a_caller_may_exactly_what_scopes_and_credential_allow(
    role: str, granted: frozenset[str], allowed: str, scope: str | None, method: str
) -> None:
    scopes, read_only = granted & ROLE_SCOPES[role], allowed == "GET and HEAD"
    caller = msgspec.structs.replace(EDITOR, role=role, scopes=scopes, read_only=read_only)
    if (scope is None or scope in scopes) and (not read_only or method in ("GET", "HEAD")):
        require(caller, scope, method)
    else:
        with pytest.raises(PermissionDenied):
            require(caller, scope, method)


def test_everybody_may_read_their_own_user_and_other_resources_by_scope() -> None:
    writer = msgspec.structs.replace(EDITOR, scopes=frozenset({"write:users", "write:products"}))
    assert may_read(writer, "read:users", 7)
    assert not may_read(writer, "read:users", 8)
    assert not may_read(writer, "read:products", 7)
    assert may_read(EDITOR, "read:users", 8)


@pytest.mark.parametrize("scopes", [(), ("openid",), ("openid", "profile", "email")], ids=str)
def test_a_token_that_opens_nothing_of_the_api_does_not(scopes: tuple[str, ...]) -> None:
    token = msgspec.structs.replace(
        EDITOR, credential="oauth", narrow=True, scopes=frozenset(scopes)
    )
    for method in METHODS:
        with pytest.raises(PermissionDenied, match="carries no scope of the API"):
            require(token, None, method)
        require_method(token, method)
    require(msgspec.structs.replace(token, scopes=frozenset({"read:products"})), None, "GET")


def test_a_role_that_lacks_the_scope_is_named_with_the_way_out() -> None:
    with pytest.raises(PermissionDenied, match=r"write:users, .*editor.*Ask an administrator"):
        require(EDITOR, "write:users", "POST")


def test_a_credential_that_lacks_what_its_user_has_is_told_to_use_another() -> None:
    with pytest.raises(PermissionDenied, match=r"does not carry the scope write:products\. Use"):
        require(msgspec.structs.replace(EDITOR, scopes=READ_SCOPES), "write:products", "POST")
