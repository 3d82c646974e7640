"""Nobody changes or removes an entry of the audit log, whatever they send to the database."""

import pytest

from driving import Api
from portico.core.audit import OPERATOR
from portico.features.events.audit import Audit
from portico.features.signin.rules import SignedOut, SignInRefused

CHANGES = ["UPDATE audit SET action = 'nothing'", "DELETE FROM audit WHERE at = 1"]
REPLACEMENT = """
REPLACE INTO audit (id, at, action, credential, details)
VALUES ((SELECT min(id) FROM audit), 1, 'nothing', 'none', '{}')"""
OF_ENGINE = {"sqlite": [*CHANGES, REPLACEMENT], "postgres": [*CHANGES, "TRUNCATE audit"]}


async def test_an_entry_stays_as_it_was_written(api: Api) -> None:
    async with api.live.db.transaction() as tx:
        await api.live[Audit].record(tx, OPERATOR.actor, 1, SignInRefused(None))
        await api.live[Audit].record(tx, OPERATOR.actor, 2, SignedOut(1))
    before = await api.live[Audit].page(limit=9)

    for sql in OF_ENGINE[api.live.db.engine]:
        with pytest.raises(Exception, match="append-only"):
            async with api.live.db.transaction() as tx:
                await tx.run(sql)
        assert await api.live[Audit].page(limit=9) == before
