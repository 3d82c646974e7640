"""The installation's secret is replaced, and everything that it encrypts goes on."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest

from driving import Api
from portico.app import Portico
from portico.core.audit import OPERATOR
from portico.core.times import HOUR
from portico.data.vault import Vault
from portico.features.access.sealing import reencrypt
from portico.features.events import webhooks
from portico.features.events.audit import Audit
from portico.features.events.storage import Webhooks
from portico.features.mail import letters
from portico.features.mail.storage import Mails
from portico.secret_file import NAME
from second_factor import Way, code_of, factored
from signing_in import Visitor, forget_keys, login_of, published

pytestmark = pytest.mark.one_engine

NEW = "5e" * 32
HOOK = {"url": "https://hooks.example.com/in", "types": ("*",), "description": ""}


class Given:
    """The secrets of a server, which are read when it starts."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._file = api.settings.data / NAME
        self.old = self._file.read_text().strip()

    async def restart(self, *secrets: str) -> None:
        """Stops the server, and starts one with these."""
        await self._api.stop()
        self.set(*secrets)
        await self._api.start()

    def set(self, *secrets: str) -> None:
        """Gives these to the next server."""
        self._file.write_text("".join(f"{secret}\n" for secret in secrets))


@pytest.fixture
async def given(api: Api) -> AsyncIterator[Given]:
    """One secret, and one signing key in each environment; no key is left at the end, though tests
    may share a database."""
    given = Given(api)
    await forget_keys(api)
    await given.restart(given.old)
    yield given
    await forget_keys(api)
    given.set(given.old)


async def hold_a_mail(api: Api) -> None:
    """Stores a mail that is due in an hour."""
    content = api.live[Vault].seal(
        msgspec.json.encode(letters.WaitingMail("test")), letters.SEALED_AS
    )
    async with api.live.db.transaction() as tx:
        await api.live[Mails].add(tx, content, api.clock() + HOUR)


async def test_secret_is_replaced_and_nothing_that_it_encrypted_is_lost(
    api: Api, visitor: Visitor, given: Given
) -> None:
    ada = await factored(api)
    token = (await login_of(api.live, ada)).access_token
    first = await webhooks.create_webhook(api.live, HOOK, OPERATOR)
    second = await webhooks.rotate_secret(api.live, first.webhook.id, OPERATOR)
    await hold_a_mail(api)
    keys = await published(visitor)

    await given.restart(NEW, given.old)
    assert (await visitor.me(token)).status_code == 200
    counts = {"signing_keys": 1, "webhooks": 2, "authenticators": 1, "mails": 1}
    passed: list[int] = []
    assert await reencrypt(api.live, OPERATOR, passed.append) == (counts, 0)
    assert sum(passed) == sum(counts.values())
    entries = await api.live[Audit].page(limit=5)
    assert {entry.action for entry in entries} == {"secret.reencrypted"}
    assert {table for entry in entries for table in json.loads(entry.details)} == {*counts}
    assert await reencrypt(api.live, OPERATOR, passed.append) == (dict.fromkeys(counts, 0), 0)
    assert (await reencrypt(api.sandbox, OPERATOR, passed.append))[0]["signing_keys"] == 1

    await given.restart(NEW)
    assert (await visitor.me(token)).status_code == 200
    assert await published(visitor) == keys
    answer = await Way(api, "/auth/login").send(ada, code_of(api))
    assert answer.status_code == 200, answer.text
    row = await api.live[Webhooks].get(first.webhook.id)
    assert row is not None
    assert row.former_secret is not None
    assert webhooks.decrypted(api.live, row.secret) == second.secret
    assert webhooks.decrypted(api.live, row.former_secret) == first.secret
    assert await api.live[Mails].count(api.live.db) == 1


async def test_hosts_with_the_secrets_in_another_order_take_what_each_other_has_made(
    api: Api, given: Given
) -> None:
    """As while one host after the other is started again."""
    hosts = [
        Portico(replace(api.settings, secret_key=secrets), clock=api.clock)
        for secrets in ((given.old, NEW), (NEW, given.old))
    ]
    for host in hosts:
        await host.open()
    for one, other in ((hosts[0].live, hosts[1].live), (hosts[1].live, hosts[0].live)):
        assert other[Vault].open(one[Vault].seal(b"a secret", "x"), "x") == b"a secret"
        assert other[Vault].reveal(one[Vault].conceal(b"a cursor", "x"), "x") == b"a cursor"
    for host in hosts:
        await host.close()
