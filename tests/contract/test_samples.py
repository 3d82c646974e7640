"""A reset of the sandbox fills every kind of resource that has samples (`core.resources`)."""

from importlib.resources import files

from driving import Api
from portico.core.audit import OPERATOR
from portico.core.resources import SCOPED
from portico.features.people.sandbox import reset

SAMPLES = files("portico.features.people") / "samples"


async def rows_of(api: Api, table: str) -> int:
    row = await api.sandbox.db.one(f"SELECT count(*) FROM {table}")  # noqa: S608 - a known table
    assert row is not None
    return int(row[0])


async def test_a_reset_fills_the_kinds_that_have_samples_and_no_others(api: Api) -> None:
    await reset(api.sandbox, OPERATOR)
    for kind in SCOPED:
        file = SAMPLES / f"{kind.plural}.ndjson"
        assert file.is_file() == kind.samples
        lines = len(file.read_bytes().splitlines()) if kind.samples else 0
        assert await rows_of(api, kind.plural) == lines
