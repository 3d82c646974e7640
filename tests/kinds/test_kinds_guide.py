"""The steps of docs/kinds.md."""

import asyncio
import re
from pathlib import Path

import pytest

from driving import Api, refused

GUIDE = Path(__file__).parents[2] / "docs" / "kinds.md"


@pytest.fixture
def environ(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The stores, and the file of the guide."""
    [code] = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "orders.py").write_text(code)
    return environ | {"PORTICO_KINDS": str(tmp_path / "kinds")}


async def test_a_hundred_at_once_get_what_is_in_stock(api: Api) -> None:
    caller = await api.caller()
    values = {"name": "Lamp", "category": "c", "price": 1, "stock_quantity": 10}
    lamp = (await caller.post("/products", json=values)).json()["data"]["id"]
    answers = await asyncio.gather(
        *(
            caller.post("/orders", json={"number": str(n), "product_id": lamp, "total": 1})
            for n in range(100)
        )
    )
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [201] * 10 + [422] * 90
    late = next(answer for answer in answers if answer.status_code == 422)
    assert refused(late, 422) == {"quantity": "is more than there is in stock"}
    assert (await caller.get(f"/products/{lamp}")).json()["data"]["stock_quantity"] == 0
    assert (await caller.get("/orders")).json()["pagination"]["total_items"] == 10
