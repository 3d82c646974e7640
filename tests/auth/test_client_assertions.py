"""Clients that sign instead of sending a secret (RFC 7523): what proves who they are, and what does
not."""

import asyncio
import hmac
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

from driving import BASE, Api
from portico.core.audit import OPERATOR
from portico.core.errors import Invalid
from portico.core.oauth import CLIENT_ASSERTION_TYPE, CLIENT_CREDENTIALS
from portico.core.secrets import base64url
from portico.features.access.clients import (
    Registered,
    Registration,
    read_client,
    register_client,
    renew_secret,
)
from signing_in import AUTH, Visitor, decoded, named, oauth_refused

RSA = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
OTHER = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
KEYS = json.dumps({"keys": [key.as_dict(private=False) for key in (RSA, EC)]})
ISSUER = AUTH["live"]


async def worker_of(api: Api, **more: Any) -> Registered:
    """A client with both keys."""
    wanted = Registration("Worker", (), "read:products", grants=("client_credentials",), jwks=KEYS)
    owner = await api.account("admin")
    wanted = wanted._replace(**more)
    return await register_client(api.live, owner, wanted, public=False, by=OPERATOR)


def signed(
    api: Api, worker: Registered, *, by: Any = EC, header: dict[str, Any] | None = None, **but: Any
) -> str:
    """A good assertion, but for these claims; None leaves one out."""
    now = api.clock() // 1000
    name = worker.client.client_id
    claims = {"iss": name, "sub": name, "aud": ISSUER, "iat": now, "exp": now + 60, **but}
    claims.setdefault("jti", api.live.random(8).hex())
    claims = {name: value for name, value in claims.items() if value is not None}
    algorithm = {"RSA": "RS256", "EC": "ES256"}[by.key_type]
    whole = {"alg": algorithm, "kid": by.kid, **(header or {})}
    return jwt.encode(whole, claims, by, algorithms=[whole["alg"]])


async def send(api: Api, assertion: str, endpoint: str = "token", **more: str) -> httpx.Response:
    form = {
        "grant_type": CLIENT_CREDENTIALS,
        "client_assertion_type": CLIENT_ASSERTION_TYPE,
        "client_assertion": assertion,
        "token": "ort_x",
        **more,
    }
    return await Visitor(api).form(endpoint, form)


@pytest.mark.one_engine
async def test_assertion_is_good_once_at_every_endpoint(api: Api) -> None:
    worker = await worker_of(api, grants=("client_credentials", "device_code"))
    named_too = {"client_id": worker.client.client_id}
    cases: list[tuple[Any, Any, str, dict[str, str]]] = [
        (RSA, ISSUER, "token", {}),
        (EC, f"{ISSUER}/token", "introspect", named_too),
        (EC, ["https://x.test", ISSUER], "revoke", {}),
        (RSA, [ISSUER], "device_authorization", named_too),
    ]
    for key, audience, endpoint, more in cases:
        assertion = signed(api, worker, by=key, aud=audience)
        answer = await send(api, assertion, endpoint, **more)
        assert answer.status_code == 200, answer.text
        oauth_refused(await send(api, assertion, endpoint, **more), 401, "invalid_client")
    metadata = (await Visitor(api).send("GET", f"{ISSUER}/.well-known/openid-configuration")).json()
    for endpoint in ("token", "introspection", "revocation"):
        assert "private_key_jwt" in metadata[f"{endpoint}_endpoint_auth_methods_supported"]
        algorithms = metadata[f"{endpoint}_endpoint_auth_signing_alg_values_supported"]
        assert algorithms == ["RS256", "ES256"]


def by_hand(api: Api, worker: Registered, algorithm: str, sign: Callable[[bytes], bytes]) -> str:
    """An assertion that no library makes."""
    header = base64url(json.dumps({"alg": algorithm, "kid": "rsa"}).encode())
    begun = f"{header}.{signed(api, worker).split('.')[1]}"
    return f"{begun}.{base64url(sign(begun.encode()))}"


def hmac_of_public_key(text: bytes) -> bytes:
    return hmac.digest(RSA.as_pem(private=False), text, "sha256")


def by_crit(api: Api, worker: Registered) -> str:
    """One with a header that must be understood, and is not."""
    registry = JWSRegistry({"exp": HeaderParameter("Expiry", "int")}, algorithms=["ES256"])
    header = {"alg": "ES256", "crit": ["exp"], "exp": 1}
    claims = decoded(signed(api, worker).split(".")[1])
    return jws.serialize_compact(header, claims, EC, registry=registry)


Wrong = Callable[[Api, Registered, Registered], str]

WRONG: dict[str, Wrong] = {
    "expired": lambda api, one, _: signed(api, one, exp=api.clock() // 1000),
    "without an end": lambda api, one, _: signed(api, one, exp=None),
    "too long": lambda api, one, _: signed(api, one, exp=api.clock() // 1000 + 3_601),
    "too long without iat": lambda api, one, _: signed(
        api, one, iat=None, exp=api.clock() // 1000 + 3_601
    ),
    "endless": lambda api, one, _: signed(api, one, exp=1e308),
    "not yet": lambda api, one, _: signed(
        api, one, nbf=api.clock() // 1000 + 90, exp=api.clock() // 1000 + 120
    ),
    "other audience": lambda api, one, _: signed(api, one, aud=BASE["live"]),
    "the sandbox's": lambda api, one, _: signed(api, one, aud=AUTH["sandbox"]),
    "no audience": lambda api, one, _: signed(api, one, aud=[]),
    "other key": lambda api, one, _: signed(api, one, by=OTHER),
    "other algorithm than the key's": lambda api, one, _: signed(api, one, header={"kid": "rsa"}),
    "none": lambda api, one, _: by_hand(api, one, "none", lambda _: b""),
    "HS256": lambda api, one, _: by_hand(api, one, "HS256", hmac_of_public_key),
    "PS256": lambda api, one, _: signed(api, one, by=RSA, header={"alg": "PS256"}),
    "another's issuer": lambda api, one, two: signed(api, one, iss=two.client.client_id),
    "another's": lambda api, one, two: signed(
        api, one, iss=two.client.client_id, sub=two.client.client_id, by=OTHER
    ),
    "nobody's": lambda api, one, _: signed(api, one, sub="client_x", iss="client_x"),
    "no jti": lambda api, one, _: signed(api, one, jti=None),
    "empty jti": lambda api, one, _: signed(api, one, jti=""),
    "a number for jti": lambda api, one, _: signed(api, one, jti=7),
    "crit": lambda api, one, _: by_crit(api, one),
    "changed": lambda api, one, _: signed(api, one)[:-2],
    "a text": lambda _api, _one, _two: "assertion",
    "long": lambda api, one, _: signed(api, one, more="x" * 8_000),
}


@pytest.mark.one_engine
async def test_wrong_assertion_is_refused(api: Api) -> None:
    one, two = await worker_of(api), await worker_of(api)
    async with api.unchanged(but="audit"):
        for name, wrong in WRONG.items():
            answer = await send(api, wrong(api, one, two))
            assert answer.status_code == 401, name
            oauth_refused(answer, 401, "invalid_client")


@pytest.mark.one_engine
async def test_client_proves_who_it_is_in_its_own_way_alone(api: Api) -> None:
    worker, shop = await worker_of(api), await worker_of(api, jwks=None)
    own, secret = {"client_id": worker.client.client_id}, named(shop)
    form = {"grant_type": CLIENT_CREDENTIALS}
    async with api.unchanged(but="audit"):
        for wrong in (own, {**own, "client_secret": "ocs_x"}):
            oauth_refused(
                await Visitor(api).form("token", {**form, **wrong}), 401, "invalid_client"
            )
        oauth_refused(await send(api, signed(api, shop), "token"), 401, "invalid_client")
        crossed = await send(api, signed(api, worker), client_id=shop.client.client_id)
        oauth_refused(crossed, 401, "invalid_client")
        kind = await send(api, signed(api, worker), client_assertion_type="x")
        oauth_refused(kind, 401, "invalid_client")
        both = await send(api, signed(api, shop), **secret)
        oauth_refused(both, 400, "invalid_request")
        with pytest.raises(Invalid):
            await renew_secret(api.live, worker.client.id, by=OPERATOR)
    assert worker.secret is None


async def test_one_jti_is_good_once_on_two_hosts(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.leave_turns(monkeypatch)
    worker, hosts = await worker_of(api), [api, api.beside()]
    for _ in range(4):
        once = signed(api, worker)
        answers = await asyncio.gather(*(send(hosts[at % 2], once) for at in range(10)))
        assert sorted(answer.status_code for answer in answers) == [200, *[401] * 9]
    other = await worker_of(api)
    for each in (worker, other):
        assert (await send(api, signed(api, each, jti="the same"))).status_code == 200


PRIVATE = EC.as_dict(private=True)
BAD_KEYS: dict[str, Any] = {
    "private": {"keys": [PRIVATE]},
    "symmetric": {"keys": [{"kty": "oct", "k": "AAAA"}]},
    "short": {"keys": [{**RSA.as_dict(private=False), "n": "_" * 171}]},
    "a slow exponent": {"keys": [{**RSA.as_dict(private=False), "e": "f" * 340}]},
    "another curve": {"keys": [ECKey.generate_key("P-384").as_dict(private=False)]},
    "for encryption": {"keys": [{**EC.as_dict(private=False), "use": "enc"}]},
    "for PS256": {"keys": [{**RSA.as_dict(private=False), "alg": "PS256"}]},
    "off the curve": {"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]},
    "numbers": {"keys": [{"kty": "RSA", "n": 5, "e": "AQAB"}]},
    "none": {"keys": []},
    "no set": EC.as_dict(private=False),
    "a list": [],
}


@pytest.mark.one_engine
async def test_client_with_unfit_keys_is_refused(api: Api) -> None:
    admin = await api.caller("admin")
    async with api.unchanged():
        for name, keys in BAD_KEYS.items():
            new = {"name": "W", "grants": ["client_credentials"], "jwks": keys}
            answer = await admin.post("/clients", json=new)
            assert answer.status_code in (400, 422), name
            assert answer.json()["error"]["details"][0]["field"] == "jwks"


@pytest.mark.one_engine
async def test_api_registers_keys_and_rotates_them(api: Api) -> None:
    admin = await api.caller("admin")
    new = {"name": "Worker", "grants": ["client_credentials"], "scopes": ["read:products"]}
    made = (await admin.post("/clients", json={**new, "jwks": json.loads(KEYS)})).json()["data"]
    assert made["jwks"]["keys"][1] == {**EC.as_dict(private=False)}
    assert "client_secret" not in made
    assert (made["public"], made["jwks_uri"]) == (False, None)
    one = f"/clients/{made['client_id']}"
    stored = await read_client(api.live, made["client_id"])
    client = Registered(stored, None)
    assert (await send(api, signed(api, client))).status_code == 200
    rotated = {"keys": [OTHER.as_dict(private=False)]}
    assert (await admin.patch(one, json={"jwks": rotated})).status_code == 200
    oauth_refused(await send(api, signed(api, client)), 401, "invalid_client")
    assert (await send(api, signed(api, client, by=OTHER))).status_code == 200
    async with api.unchanged():
        for change, field in (
            ({"jwks": None}, "jwks"),
            ({"jwks_uri": "https://shop.example/jwks.json"}, "jwks_uri"),
        ):
            refused = await admin.patch(one, json=change)
            assert refused.status_code == 422
            assert refused.json()["error"]["details"][0]["field"] == field
        for wrong in (
            {**new, "jwks": json.loads(KEYS), "public": True},
            {**new, "jwks_uri": "http://shop.example/jwks.json"},
            {**new, "jwks_uri": "https://127.0.0.1/jwks.json"},
        ):
            assert (await admin.post("/clients", json=wrong)).status_code == 422
