"""The keys that sign: published, then signing, then retired; encrypted where they are kept."""

from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from joserfc.jwk import RSAKey

from driving import NOON, Api, FakeClock, refused
from portico.app import Portico
from portico.core.audit import OPERATOR
from portico.core.errors import Unavailable
from portico.features.access.signing import Signer
from portico.features.access.storage import SigningKeys
from portico.secret_file import NAME as SECRET_FILE
from portico.settings import Settings
from signing_in import AUTH, Visitor, forget_keys, login_of, published, read

pytestmark = pytest.mark.one_engine

MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.fixture(autouse=True)
async def one_key(api: Api) -> AsyncIterator[None]:
    """Begins with one key in each environment, though tests may share a database; leaves none."""
    await forget_keys(api)
    await api.stop()
    await api.start()
    yield
    await forget_keys(api)


async def test_new_key_is_published_then_signs_and_then_the_old_one_goes(
    api: Api, visitor: Visitor
) -> None:
    ada = await api.account()

    async def signs() -> str:
        token = (await login_of(api.live, ada)).access_token
        return str(read(token)[0]["kid"])

    old = await signs()
    new = (await api.live[Signer].rotate(OPERATOR)).kid
    assert await published(visitor) == [new, old]
    assert await signs() == old
    api.clock.now = NOON + 15 * MINUTE - 1
    assert await signs() == old
    last = (await login_of(api.live, ada)).access_token
    api.clock.now = NOON + 15 * MINUTE
    assert await signs() == new
    assert await published(visitor) == [new, old]
    # What the old key signed last holds to its own end, and so long the key is published.
    api.clock.now = read(last)[1]["exp"] * 1000 - 1
    assert await published(visitor) == [new, old]
    assert (await visitor.me(last)).status_code == 200
    api.clock.now += 1
    refused(await visitor.me(last), 401)
    api.clock.now = NOON + 15 * MINUTE + HOUR
    assert await published(visitor) == [new]


async def test_rotation_at_once_ends_what_the_leaked_key_signed(api: Api, visitor: Visitor) -> None:
    ada = await api.account()
    before = (await login_of(api.live, ada)).access_token
    assert (await visitor.me(before)).status_code == 200
    new = (await api.live[Signer].rotate(OPERATOR, at_once=True)).kid
    assert await published(visitor) == [new]
    refused(await visitor.me(before), 401)
    after = (await login_of(api.live, ada)).access_token
    assert read(after)[0]["kid"] == new
    assert (await visitor.me(after)).status_code == 200


async def test_live_and_sandbox_sign_with_keys_of_their_own(visitor: Visitor) -> None:
    answer = await visitor.send("GET", f"{AUTH['sandbox']}/.well-known/jwks.json")
    sandbox = {key["kid"] for key in answer.json()["keys"]}
    assert sandbox
    assert not sandbox & set(await published(visitor))


async def test_private_signing_key_is_readable_in_no_file_and_row(api: Api) -> None:
    (row,) = await api.live[SigningKeys].all()
    assert api.portico.vault.open(row.private_key, "another") is None, "bound to its name"
    pem = api.portico.vault.open(row.private_key, row.kid)
    assert pem is not None
    traces = [b"PRIVATE KEY", b"-----BEGIN"]
    # All but the public modulus and exponent.
    for name, value in RSAKey.import_key(pem).as_dict(private=True).items():
        if name in ("d", "p", "q", "dp", "dq", "qi"):
            raw = urlsafe_b64decode(str(value) + "==")
            traces += [raw, raw.hex().encode(), b64encode(raw), urlsafe_b64encode(raw)]
    files = [path for path in api.settings.data.iterdir() if path.is_file()]
    assert any(path.name == "live.db" for path in files)
    for text in (bytes(row.private_key), *(path.read_bytes() for path in files)):
        for trace in traces:
            assert trace not in text
            assert trace[: len(trace) // 2] not in text


async def refused_host(settings: Settings, clock: FakeClock) -> None:
    """Sees that a host with these settings refuses to start, and to make a signing key."""
    other = Portico(settings, clock=clock)
    with pytest.raises(Unavailable, match=r"another secret .* secret_key_file"):
        await other.open()
    for at_once in (False, True):
        with pytest.raises(Unavailable, match="another secret"):
            await other.live[Signer].rotate(OPERATOR, at_once=at_once)
    await other.close()


@pytest.mark.parametrize("environ", ["postgres+redis"], indirect=True, ids=["shared"])
async def test_second_directory_shares_the_secret_or_refuses_to_start(
    api: Api, visitor: Visitor
) -> None:
    before = await published(visitor)
    second = replace(api.settings, data=api.settings.data / "second")
    second.data.mkdir()
    other = Portico(second)
    with pytest.raises(Unavailable, match="another secret"):
        await other.open()
    await other.close()
    assert not list(second.data.iterdir()), "nor is a secret left that is nobody's"
    await refused_host(second, api.clock)
    await refused_host(replace(api.settings, secret_key=("ab" * 32,)), api.clock)
    assert await published(visitor) == before
    other = Portico(replace(second, secret_key_file=api.settings.data / SECRET_FILE))
    await other.open()
    assert await published(visitor) == before
    await other.close()
