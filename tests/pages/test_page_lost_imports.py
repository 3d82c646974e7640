"""Files of products that were lost with their host."""

import pytest

from driving import Api
from pages.test_page_product_import import GOOD, checked, files, lines, send
from pages.visiting import Visitor, said, signed_in
from portico.domain.uploads import LOST, MAX_WAITING, Upload
from portico.services.uploads import path_of

pytestmark = pytest.mark.one_engine

DISCARD = 'name="do" value="discard">'


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


async def lost(api: Api, editor: Visitor) -> list[str]:
    """The paths of as many files as may wait, which were to be stored when their host was
    exchanged."""
    paths = [(await checked(editor, lines(GOOD)))[0] for _ in range(MAX_WAITING)]
    for file in files(api):
        file.unlink()
    for path in paths:
        await editor.post(path, do="store")
    return paths


async def test_a_file_that_is_lost_can_be_discarded(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path, *_ = await lost(api, editor)
    assert DISCARD not in (await editor.get(path)).text
    early = await editor.post(path, do="discard")
    assert (early.status_code, said(early)) == (409, "This file is being stored.")

    api.clock.advance(milliseconds=LOST + 1)

    page = (await editor.get(path)).text
    assert "is not responding" in page
    assert DISCARD in page
    assert (await editor.post(path, do="discard")).status_code == 303
    assert (await editor.get(path)).status_code == 404


async def test_files_that_are_lost_keep_their_sender_from_nothing(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await lost(api, editor)
    assert (await send(editor, lines(GOOD))).status_code == 409

    api.clock.advance(milliseconds=LOST + 1)

    for _ in range(MAX_WAITING):
        await checked(editor, lines(GOOD))
    assert (await send(editor, lines(GOOD))).status_code == 409, "those are all here"


async def test_files_that_are_lost_and_those_after_them_are_all_listed(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    paths = await lost(api, editor)
    api.clock.advance(milliseconds=LOST + 1)
    paths += [(await checked(editor, lines(GOOD)))[0] for _ in range(MAX_WAITING)]

    page = (await editor.get("/products/import")).text

    assert [path for path in paths if f'{path}"' not in page] == []


async def test_a_file_that_waits_on_another_host_for_another_is_not_lost(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path = (await lost(api, editor))[0]
    api.clock.advance(milliseconds=LOST + 1)
    uploads: list[Upload] = await api.live.uploads.all()
    async with api.live.db.transaction() as tx:
        now, lane = api.clock(), {"id": uploads[-1].id}
        assert await api.live.uploads.queue.claim(tx, [(lane, 1)], now=now, until=now)

    assert "Waiting for another import" in (await editor.get(path)).text
    assert (await editor.post(path, do="discard")).status_code == 409
    assert not path_of(api.live, uploads[0]).exists()
