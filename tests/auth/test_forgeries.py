"""Tokens that were not issued here are 401, whatever they look like, and cost next to nothing
(RFC 8725)."""

import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import RSAKey

from driving import BASE, EXAMPLES, NOON, Api, refused
from portico.features.access.signing import MAX_LENGTH, Signer
from portico.features.access.storage import SigningKeys
from signing_in import AUTH, Visitor, client_of, code_of, decoded, login_of, read, somewhere

FOREIGN = RSAKey.generate_key(2048)


@pytest.fixture
def environ() -> dict[str, str]:
    """One engine: a forgery is told before any row of a token is read."""
    return {}


def encoded(value: object) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


async def public_key(visitor: Visitor) -> tuple[dict[str, Any], RSAKey]:
    """The published key, as JSON and to use."""
    keys = (await visitor.send("GET", f"{AUTH['live']}/.well-known/jwks.json")).json()["keys"]
    return keys[0], RSAKey.import_key(keys[0])


async def signed_here(api: Api, claims: dict[str, Any], **header: Any) -> str:
    """A token that the live environment's own key has signed, as no endpoint would."""
    (row,) = [row for row in await api.live[SigningKeys].all() if row.retires_at is None]
    pem = api.portico.vault.open(row.private_key, row.kid)
    assert pem is not None
    whole = {"alg": "RS256", "typ": "JWT", "kid": row.kid, **header}
    return signed(whole, claims, RSAKey.import_key(pem))


def signed(header: dict[str, Any], claims: dict[str, Any], key: RSAKey) -> str:
    """A token with this very header, which no library would write."""
    text = f"{encoded(header)}.{encoded(claims)}"
    assert key.private_key is not None
    signature = key.private_key.sign(text.encode(), PKCS1v15(), SHA256())
    return f"{text}.{encoded(signature)}"


async def refuses(api: Api, token: str) -> str:
    """Sees that a token is refused and nothing changes; returns what is said about it."""
    headers = [("authorization", f"Bearer {token}")]
    async with api.unchanged():
        answer = await somewhere(api).exchange("GET", "/v1/users/me", headers)
        assert answer.status_code == 401, token
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    return str(answer.json()["error"]["message"])


@pytest.fixture
async def good(api: Api) -> str:
    """A token that holds."""
    return (await login_of(api.live, await api.account("admin"))).access_token


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", "RS256", "HS256"])
async def test_unsigned_token_is_refused(api: Api, good: str, alg: str) -> None:
    header, claims = read(good)
    unsigned = f"{encoded({**header, 'alg': alg})}.{encoded(claims)}"
    for token in (f"{unsigned}.", unsigned, f"{unsigned}.{encoded(b'x')}"):
        await refuses(api, token)
    bare = f"{encoded({'alg': alg})}.{encoded(claims)}."
    await refuses(api, bare)


async def test_token_signed_with_the_public_key_as_secret_is_refused(
    api: Api, visitor: Visitor, good: str
) -> None:
    header, claims = read(good)
    published, key = await public_key(visitor)
    public = key.public_key
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(published).encode(),
        published["n"].encode(),
        decoded(published["n"]),
        published["kid"].encode(),
        b"",
    ]
    for secret in [*secrets, secrets[0].strip()]:
        for alg, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("RS256", "sha256")):
            text = f"{encoded({**header, 'alg': alg})}.{encoded(claims)}"
            mac = hmac.digest(secret, text.encode(), digest)
            await refuses(api, f"{text}.{encoded(mac)}")


HEADERS: list[dict[str, Any]] = [
    {"jwk": FOREIGN.as_dict(private=False)},
    {"jku": "https://evil.example/jwks.json"},
    {"jku": f"{AUTH['live']}/.well-known/jwks.json"},
    {"x5u": "https://evil.example/cert.pem"},
    {"x5c": ["MIIB"]},
    {"x5t": "AAAA"},
    {"crit": ["exp"]},
    {"crit": ["b64"], "b64": False},
    {"b64": False},
    {"b64": True},
    {"zip": "DEF"},
    {"cty": "JWT"},
    {"nonsense": 1},
]


async def test_token_with_an_unknown_header_is_refused(api: Api, good: str) -> None:
    header, claims = read(good)
    for more in HEADERS:
        token = await signed_here(api, claims, **more)
        await refuses(api, token)
        # Nor would it be accepted if it were known as issued.
        assert not await api.live[Signer].verify(token, audience=BASE["live"], now=NOON), more
        for kid in (header["kid"], "another"):
            await refuses(api, signed({**header, "kid": kid, **more}, claims, FOREIGN))


async def test_token_with_another_key_id_or_type_is_refused(api: Api, good: str) -> None:
    header, claims = read(good)
    for kid in ("", "another", "../../dev/null", "' OR 1=1 --", "\0", "\ud800"):
        await refuses(api, await signed_here(api, claims, kid=kid))
    without = {name: value for name, value in header.items() if name != "kid"}
    await refuses(api, f"{encoded(without)}.{good.partition('.')[2]}")
    for typ in ("at+jwt", "jwt", "", "JWS", "dpop+jwt"):
        token = await signed_here(api, claims, typ=typ)
        await refuses(api, token)
        assert not await api.live[Signer].verify(token, audience=BASE["live"], now=NOON), typ


CLAIMS: list[dict[str, Any]] = [
    {"iss": "https://evil.example/auth"},
    {"iss": f"{AUTH['live']}/"},
    {"iss": None},
    {"aud": BASE["sandbox"]},
    {"aud": f"{BASE['live']}/"},
    {"aud": [BASE["live"], "https://evil.example"]},
    {"aud": [BASE["live"]]},
    {"aud": None},
    {"exp": NOON // 1000},
    {"exp": NOON // 1000 - 1},
    {"exp": float(NOON // 1000 + 60) + 0.5},
    {"exp": "9999999999"},
    {"exp": None},
    {"exp": 10**30},
    {"sub": "1"},
    {"role": "admin"},
]


async def test_token_with_claims_never_issued_is_refused(api: Api) -> None:
    viewer = await api.account("viewer")
    claims = read((await login_of(api.live, viewer)).access_token)[1]
    for more in CLAIMS:
        changed = {name: value for name, value in {**claims, **more}.items() if value is not None}
        # Even the true key makes no token: those that were issued are known.
        await refuses(api, await signed_here(api, changed))


async def test_signer_verifies_issuer_audience_and_expiry(api: Api, good: str) -> None:
    claims = read(good)[1]

    async def verified(**more: Any) -> bool:
        token = await signed_here(api, {**claims, **more})
        return await api.live[Signer].verify(token, audience=BASE["live"], now=NOON)

    assert await verified()
    for more in (
        {"iss": "https://evil.example/auth"},
        {"iss": AUTH["sandbox"]},
        {"aud": BASE["sandbox"]},
        {"aud": [BASE["live"]]},
        {"exp": NOON // 1000},
        {"exp": float(NOON // 1000 + 60) + 0.5},
        {"exp": "9999999999"},
    ):
        assert not await verified(**more), more


async def test_token_with_an_unknown_jti_is_refused(api: Api, good: str) -> None:
    assert read(good)[1] != {}
    await refuses(api, await signed_here(api, {**read(good)[1], "jti": "0" * 32}))


async def test_token_signed_by_a_foreign_key_is_refused(api: Api, good: str) -> None:
    header, claims = read(good)
    await refuses(api, jwt.encode(header, claims, FOREIGN, algorithms=["RS256"]))


async def test_token_of_the_other_environment_is_refused_with_its_address(
    api: Api, visitor: Visitor
) -> None:
    for home, away in (("live", "sandbox"), ("sandbox", "live")):
        env = api.live if home == "live" else api.sandbox
        token = (await login_of(env, await api.account(env=env))).access_token
        answer = await visitor.me(token, env=away)
        refused(answer, 401)
        assert BASE[home] in answer.json()["error"]["message"]
    # One that merely says so is refused alike: what is said is no secret.
    claim = f"{encoded({})}.{encoded({'iss': AUTH['sandbox']})}.x"
    assert BASE["sandbox"] in await refuses(api, claim)


async def test_id_token_is_refused_as_access_token(api: Api, visitor: Visitor) -> None:
    ada = await api.account("admin")
    client = await client_of(api.live)
    code = await code_of(api.live, client.client, ada, "openid")
    id_token = (await visitor.exchange(client, code)).json()["id_token"]
    await refuses(api, id_token)


@EXAMPLES
@given(data=st.data())
async def test_token_with_any_byte_changed_is_refused(api: Api, data: st.DataObject) -> None:
    token = (await login_of(api.live, await api.account())).access_token
    at = data.draw(st.integers(0, 10_000)) % len(token)
    letter = data.draw(st.characters(min_codepoint=0x21, max_codepoint=0x7E))
    changed = token[:at] + letter + token[at + 1 :]
    if changed != token:
        await refuses(api, changed)


@EXAMPLES
@given(data=st.data())
async def test_token_cut_lengthened_or_mixed_is_refused(api: Api, data: st.DataObject) -> None:
    user = await api.account()
    one, other = [(await login_of(api.live, user)).access_token for _ in range(2)]
    cut = data.draw(st.integers(0, 10_000)) % len(one)
    tail = data.draw(st.sampled_from(["=", ".", "A", " ", "%", "\t", "..", ".e30"]))
    picks = [data.draw(st.booleans()) for _ in range(3)]
    pairs = zip(one.split("."), other.split("."), picks, strict=True)
    parts = [first if pick else second for first, second, pick in pairs]
    for token in (one[:cut], one[cut:], one + tail, tail + one, ".".join(parts)):
        if token.strip() not in (one, other):
            await refuses(api, token)


JUNK = st.one_of(
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=60),
    st.tuples(*[st.binary(max_size=30).map(encoded)] * 3).map(".".join),
    st.tuples(
        st.dictionaries(
            st.sampled_from(["alg", "kid", "typ", "iss"]),
            st.one_of(st.none(), st.integers(), st.text(max_size=5), st.just("RS256")),
        ).map(encoded),
        st.dictionaries(st.sampled_from(["iss", "aud", "exp"]), st.text(max_size=5)).map(encoded),
        st.just("AAAA"),
    ).map(".".join),
)


@EXAMPLES
@given(token=JUNK)
async def test_token_of_any_shape_is_refused(api: Api, token: str) -> None:
    await refuses(api, token)


def nested(depth: int) -> bytes:
    return b'{"x":' + b"[" * depth + b"]" * depth + b',"iss":"x"}'


@pytest.mark.parametrize("depth", [100, 900, 1500, 20_000, 200_000])
async def test_deeply_nested_token_is_refused(api: Api, depth: int) -> None:
    deep = encoded(nested(depth))
    for token in (f"{deep}.e30.x", f"e30.{deep}.x", f"{deep}.{deep}.{deep}"):
        await refuses(api, token)


class Counted:
    """A stand-in's eye on what a request has cost: look-ups in the live database."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lookups: list[str] = []
        self.signatures = 0
        one, verify = api.live.db.one, jws.deserialize_compact

        async def counted_one(sql: str, *values: Any) -> Any:
            self.lookups.append(sql)
            return await one(sql, *values)

        def counted_verify(*values: Any, **more: Any) -> Any:
            self.signatures += 1
            return verify(*values, **more)

        monkeypatch.setattr(api.live.db, "one", counted_one)
        monkeypatch.setattr(jws, "deserialize_compact", counted_verify)


@pytest.fixture
def counted(api: Api, monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(api, monkeypatch)


async def test_malformed_token_costs_neither_look_up_nor_signature(
    api: Api, counted: Counted, good: str
) -> None:
    header, claims = read(good)
    signature = good.rpartition(".")[2]
    junk = [
        "x",
        "x.y.z",
        "..",
        f"{encoded({**header, 'alg': 'none'})}.{encoded(claims)}.",
        f"{encoded({**header, 'alg': 'HS256'})}.{encoded(claims)}.{signature}",
        f"{encoded({**header, 'kid': 'another'})}.{encoded(claims)}.{signature}",
        f"{encoded({**header, 'jwk': {}})}.{encoded(claims)}.{signature}",
        good + "A" * (MAX_LENGTH + 1 - len(good)),
        "sk_live_" + "0" * 49,
        "x" * 100_000,
    ]
    counted.lookups.clear()
    for token in junk:
        headers = [("authorization", f"Bearer {token}")]
        answer = await somewhere(api).exchange("GET", "/v1/users/me", headers)
        assert answer.status_code == 401
    assert counted.lookups == []
    assert counted.signatures == 0


async def test_forged_token_costs_one_signature_and_no_look_up(
    api: Api, counted: Counted, good: str
) -> None:
    header, claims = read(good)
    forged = jwt.encode(header, claims, FOREIGN, algorithms=["RS256"])
    counted.lookups.clear()
    headers = [("authorization", f"Bearer {forged}")]
    answer = await somewhere(api).exchange("GET", "/v1/users/me", headers)
    assert answer.status_code == 401
    assert (counted.signatures, counted.lookups) == (1, [])
