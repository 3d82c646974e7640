"""What is kept out of logs."""

import pytest

from portico.web.measure import redact

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxNyJ9.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "logged"),
    [(f"/a/{TOKEN}/b", "/a/(redacted)/b"),
     (f"token%3D{TOKEN}, {TOKEN}.", "token%3D(redacted), (redacted)."),
     (f"/{TOKEN.rpartition('.')[0]}", "/(redacted)"),
     (f"/{TOKEN.partition('.')[0]}", "/(redacted)"),
     ("/sk_live_abc/oat_abc/ort_a-c", "/(redacted)/(redacted)/(redacted)"),
     ("postgres://ann:hunter2@db/portico", "postgres://(redacted)@db/portico"),
     ("/v1/whsec_aB3+/x_-==, whsec_a%2Fb", "/v1/(redacted), (redacted)"),
     ("smtp://u:p@ss@h and smtp://v:@@i/a@b", "smtp://(redacted)@h and smtp://(redacted)@i/a@b"),
     ("/v1/products/17", "/v1/products/17")],
)  # fmt: skip
def test_credentials_do_not_reach_the_log(text: str, logged: str) -> None:
    assert redact(text) == logged


@pytest.mark.parametrize("piece", ["eyJ", "eyJ.", "eyJa.a", "eyJ-"])
def test_what_begins_as_a_token_is_one_however_it_goes_on(piece: str) -> None:
    """Else whoever looks gives up at its end, and begins again at each place in a long path."""
    assert "eyJ" not in redact(f"/{piece * 20_000}/")
