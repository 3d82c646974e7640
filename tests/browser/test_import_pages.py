"""A file of products on its way in, through a browser."""

import secrets
import time
from pathlib import Path

import apsw
import pytest
from playwright.async_api import expect

from browser.looking import Desk, Person

pytestmark = pytest.mark.xdist_group("browser")

ROWS = 300
FAULTY = (7, 250)
"""Rows whose price is none."""

TOLD = """() => {
    const part = document.querySelector("main [role=status]");
    window.told = [];
    new MutationObserver(() => told.push(part.textContent)).observe(part, {childList: true});
}"""
"""Notes what a screen reader is told from now on: a part that is put instead of another tells it
nothing."""


def lines_of(file: Path) -> list[str]:
    """The lines of a file that was downloaded."""
    return file.read_text().splitlines()


def under_way(desk: Desk, editor: Person, state: str) -> tuple[apsw.Connection, int]:
    """The live database, and in it the id of a file that is a third done."""
    database = apsw.Connection(str(desk.installation.data / "live.db"))
    database.set_busy_timeout(5_000)
    now = int(time.time() * 1000)
    with database:
        upload = database.execute(
            "INSERT INTO uploads VALUES (NULL, 'none', 'products', ?, '{}', 'lamps.csv', 0, 900, ?,"
            " ?, ?, 120, 300, 120, 0, 0, 0, '', '[]') RETURNING id",
            (editor.id, state, now, now),
        ).get
    return database, upload


async def test_a_file_is_checked_its_faulty_rows_told_and_the_rest_stored(
    desk: Desk, tmp_path: Path
) -> None:
    editor = desk.person("editor")
    mark = f"kettle{secrets.token_hex(4)}"
    lines = [f"{mark} {n},kitchen,{'dear' if n in FAULTY else n + 0.5}" for n in range(ROWS)]
    file = tmp_path / f"{mark}.csv"
    file.write_text("\n".join(["name,category,price", *lines]))
    async with desk.looking(editor) as page:
        await page.goto("products")
        await page.get_by_role("link", name="Import").first.click()
        await page.get_by_label("File").set_input_files(file)
        await page.get_by_role("button", name="Check file").click()
        told = page.get_by_role("status")
        await expect(told).to_have_text(f"{ROWS - 2:,} rows can be imported, 2 rows cannot")
        await expect(page.get_by_text("Nothing is stored yet.")).to_be_visible()
        faults = page.get_by_role("region", name="Faulty rows").locator("tbody tr")
        await expect(faults).to_have_text(
            [f"{n + 2:,}price must be a number: dear" for n in FAULTY]
        )
        async with page.expect_download() as coming:
            await page.get_by_role("link", name="Download the faulty rows").click()
        table = lines_of(await (await coming.value).path())
        assert table[0] == "line,field,message,value"
        assert [line.partition(",")[0] for line in table[1:]] == [str(n + 2) for n in FAULTY]
        await page.get_by_role("button", name=f"Import {ROWS - 2:,} products").click()
        await expect(told).to_have_text(f"{ROWS - 2:,} products stored")
        await page.locator(".buttons").get_by_role("link", name="Products").click()
        await page.get_by_label("Name or description").fill(mark)
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator("#count")).to_contain_text(f"{ROWS - 2:,} products")


async def test_progress_is_shown_as_it_goes_on_and_what_came_of_it(desk: Desk) -> None:
    editor = desk.person("editor")
    database, upload = under_way(desk, editor, "storing")
    async with desk.looking(editor) as page:
        await page.goto(f"products/import/{upload}")
        done = page.get_by_role("progressbar", name="Import progress")
        await expect(page.get_by_role("status")).to_have_text("Storing the products")
        await expect(done).to_have_js_property("position", 300 / 900)
        with database:
            database.execute("UPDATE uploads SET line = 240, done = 600 WHERE id = ?", (upload,))
        await expect(done).to_have_js_property("position", 600 / 900)
        await expect(page.get_by_text("Processed up to line 240.")).to_be_visible()
        await page.evaluate(TOLD)
        with database:
            database.execute(
                "UPDATE uploads SET state = 'stored', inserted = 360 WHERE id = ?", (upload,)
            )
        await expect(page.get_by_role("status")).to_have_text("360 products stored")
        assert await page.evaluate("told") == ["360 products stored"]
    database.close()
