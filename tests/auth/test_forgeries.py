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
from joserfc import jws, jwt
from joserfc.jwk import RSAKey

from driving import BASE, NOON, Api, challenge, refused
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
        assert challenge(answer) == 'Bearer error="invalid_token"'
    return str(answer.json()["error"]["message"])


@pytest.fixture
async def good(api: Api) -> str:
    """A token that holds."""
    return (await login_of(api.live, await api.account("admin"))).access_token


@pytest.mark.parametrize("alg", ["none", "nOnE", "", "RS256", "HS256"])
async def test_unsigned_token_is_refused(api: Api, good: str, alg: str) -> None:
    header, claims = read(good)
    await refuses(api, f"{good[:-8]}AAAAAAAA")
    unsigned = f"{encoded({**header, 'alg': alg})}.{encoded(claims)}"
    for token in (f"{unsigned}.", unsigned, f"{unsigned}.{encoded(b'x')}"):
        await refuses(api, token)


async def test_token_signed_with_the_public_key_as_secret_is_refused(
    api: Api, visitor: Visitor, good: str
) -> None:
    header, claims = read(good)
    answer = await visitor.send("GET", f"{AUTH['live']}/.well-known/jwks.json")
    published = answer.json()["keys"][0]
    public = RSAKey.import_key(published).public_key
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, pem.strip(), json.dumps(published).encode(), decoded(published["n"]), b""):
        for alg in ("HS256", "RS256"):
            text = f"{encoded({**header, 'alg': alg})}.{encoded(claims)}"
            mac = hmac.digest(secret, text.encode(), "sha256")
            await refuses(api, f"{text}.{encoded(mac)}")


HEADERS: list[dict[str, Any]] = [
    {"jwk": FOREIGN.as_dict(private=False)},
    {"jku": "https://evil.example/jwks.json"},
    {"x5c": ["MIIB"]},
    {"crit": ["exp"]},
    {"crit": ["b64"], "b64": False},
    {"zip": "DEF"},
    {"nonsense": 1},
]


async def test_token_with_an_unknown_header_is_refused(api: Api, good: str) -> None:
    header, claims = read(good)
    for more in HEADERS:
        token = await signed_here(api, claims, **more)
        await refuses(api, token)
        # Nor would it be accepted if it were known as issued.
        assert not await api.live[Signer].verify(token, audience=BASE["live"], now=NOON), more
        await refuses(api, signed({**header, **more}, claims, FOREIGN))


async def test_token_with_another_key_id_or_type_is_refused(api: Api, good: str) -> None:
    header, claims = read(good)
    for kid in ("", "another", "../../dev/null", "\0", "\ud800"):
        await refuses(api, await signed_here(api, claims, kid=kid))
    without = {name: value for name, value in header.items() if name != "kid"}
    await refuses(api, f"{encoded(without)}.{good.partition('.')[2]}")
    for typ in ("at+jwt", "jwt", ""):
        token = await signed_here(api, claims, typ=typ)
        await refuses(api, token)
        assert not await api.live[Signer].verify(token, audience=BASE["live"], now=NOON), typ


CLAIMS: list[dict[str, Any]] = [
    {"iss": "https://evil.example/auth"},
    {"iss": AUTH["sandbox"]},
    {"iss": None},
    {"aud": BASE["sandbox"]},
    {"aud": f"{BASE['live']}/"},
    {"aud": [BASE["live"]]},
    {"aud": None},
    {"exp": NOON // 1000},
    {"exp": float(NOON // 1000 + 60) + 0.5},
    {"exp": "9999999999"},
    {"exp": None},
]


async def test_token_with_claims_never_issued_is_refused(api: Api, good: str) -> None:
    claims = read(good)[1]
    for more in CLAIMS:
        changed = {name: value for name, value in {**claims, **more}.items() if value is not None}
        token = await signed_here(api, changed)
        await refuses(api, token)
        assert not await api.live[Signer].verify(token, audience=BASE["live"], now=NOON), more
    # Even the true key makes no token: those that were issued are known.
    for name, value in (("sub", "1"), ("role", "owner"), ("jti", "0" * 32)):
        token = await signed_here(api, {**claims, name: value})
        await refuses(api, token)
        assert await api.live[Signer].verify(token, audience=BASE["live"], now=NOON)


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


@pytest.mark.parametrize("depth", [900, 200_000])
async def test_deeply_nested_token_is_refused(api: Api, depth: int) -> None:
    deep = encoded(b'{"x":' + b"[" * depth + b"]" * depth + b',"iss":"x"}')
    for token in (f"{deep}.e30.x", f"e30.{deep}.x"):
        await refuses(api, token)


async def test_invalid_token_costs_no_look_up_and_one_signature_at_most(
    api: Api, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, claims = read(good)
    signature = good.rpartition(".")[2]
    junk = [
        *("x", "x.y.z", "..", "sk_live_" + "0" * 49, "x" * 100_000),
        *(f"{encoded({**header, 'alg': alg})}.{encoded(claims)}." for alg in ("none", "HS256")),
        f"{encoded({**header, 'kid': 'another'})}.{encoded(claims)}.{signature}",
        f"{encoded({**header, 'jwk': {}})}.{encoded(claims)}.{signature}",
        good + "A" * (MAX_LENGTH + 1 - len(good)),
    ]
    forged = jwt.encode(header, claims, FOREIGN, algorithms=["RS256"])
    lookups, signatures = [], []
    one, verify = api.live.db.one, jws.deserialize_compact

    async def counted_one(sql: str, *values: Any) -> Any:
        lookups.append(sql)
        return await one(sql, *values)

    def counted_verify(*values: Any, **more: Any) -> Any:
        signatures.append(values)
        return verify(*values, **more)

    monkeypatch.setattr(api.live.db, "one", counted_one)
    monkeypatch.setattr(jws, "deserialize_compact", counted_verify)
    for token, checked in (*((each, 0) for each in junk), (forged, 1)):
        headers = [("authorization", f"Bearer {token}")]
        answer = await somewhere(api).exchange("GET", "/v1/users/me", headers)
        assert answer.status_code == 401
        assert (len(signatures), lookups) == (checked, [])
