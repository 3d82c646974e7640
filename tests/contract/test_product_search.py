"""`search`: the same answer on both engines as a plain loop over all products gives."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from driving import EXAMPLES, Api
from portico.data.search import query_words, tokens
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.rules import Product
from portico.features.catalogue.storage import Products

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
WORDS = r"""
red Red réd re shirt Shirts sh ß ss STRASSE straße 日本 日本語 語 I İ Σς x xx a ab 🙂 🙂a
AND OR NOT NEAR(a NEAR/2 a* *a "a" " ' a'b name: {name} : - + ^a ( ) | & ! <-> \ %a _a __ a_b
0 00 1.5 ﬁne ² ½
"""
LONG = ["y" * 47, "y" * 48, "y" * 49, "é" * 60, "語" * 100]
ODD = ["i\u0307", "e\u0301", "\u0301", "\u0131", "\t", "\u200d", "\u00a0", ""]
PIECES = st.sampled_from([*WORDS.split(), *LONG, *ODD])
TEXTS = st.lists(st.one_of(PIECES, PIECES, PIECES, ANY_TEXT), max_size=5).map(" ".join)
PRODUCTS = st.lists(
    st.fixed_dictionaries(
        {
            "name": TEXTS,
            "description": TEXTS,
            "status": st.sampled_from(["active", "active", "active", "draft"]),
            "stock_quantity": st.integers(0, 1),
        }
    ),
    max_size=12,
)
QUERIES = st.lists(TEXTS.map(lambda text: text[:200]), min_size=1, max_size=5)


def rank(product: Product, words: list[str]) -> int | None:
    """0: all words in the name; 1: the last as a prefix there; 2: anywhere; None: no match."""
    *whole, last = words
    name, anywhere = tokens(product.name), [*tokens(product.name), *tokens(product.description)]

    def has(texts: list[str], *, prefix: bool) -> bool:
        ends = any(text.startswith(last) for text in texts) if prefix else last in texts
        return ends and all(word in texts for word in whole)

    if has(name, prefix=False):
        return 0
    if has(name, prefix=True):
        return 1
    return 2 if has(anywhere, prefix=True) else None


def expected(products: list[Product], query: str, filters: dict[str, Any]) -> list[int]:
    words = query_words(query)
    status = filters.get("status")
    chosen = [product for product in products if status in (None, product.status)]
    if "in_stock" in filters:
        wanted = filters["in_stock"] == "true"
        chosen = [product for product in chosen if (product.stock_quantity > 0) == wanted]
    if not words:
        return [product.id for product in reversed(chosen)]
    ranked = [(rank(product, words), -product.id) for product in chosen]
    return [-number for place, number in sorted(r for r in ranked if r[0] is not None)]


@settings(EXAMPLES, max_examples=12)
@given(
    values=PRODUCTS,
    queries=QUERIES,
    limit=st.integers(1, 6),
    filters=st.fixed_dictionaries(
        {"status": st.sampled_from(["active", "active", "draft", None])},
        optional={"in_stock": st.sampled_from(["true", "false"])},
    ),
)
@example(
    values=[{"name": name, "description": d, "status": status, "stock_quantity": 0}
            for name in ("red", "reds", "blue") for d in ("", "red", "red blue")
            for status in ("active", "draft")],
    queries=["red", "blue red", "re", "red blue r", ""],
    limit=2,
    filters={"status": "active"},
)  # fmt: skip
async def test_both_engines_find_and_order_as_a_plain_loop_does(
    api: Api,
    values: list[dict[str, Any]],
    queries: list[str],
    limit: int,
    filters: dict[str, Any],
) -> None:
    async with api.live.db.transaction() as tx:
        await api.live[Products].delete_all(tx)
    caller = await api.caller("viewer")
    products = [await api.product(**one) for one in values]
    for query in queries:
        wanted = expected(products, query, filters)
        found: list[int] = []
        for page in range(1, len(wanted) // limit + 2):
            if filters["status"] is None:  # which pages of the dashboard alone ask for
                stock = filters.get("in_stock")
                chosen = KIND.query(
                    status=None,
                    in_stock=None if stock is None else stock == "true",
                    search=query,
                    limit=limit,
                )
                got = await api.live[Products].listed(chosen, (page - 1) * limit, None)
                found += [product.id for product in got.rows]
                assert got.total == len(wanted)
                continue
            params = {"search": query, "limit": limit, "page": page, **filters}
            answer = await caller.get("/products", params=params)
            assert answer.status_code == 200, answer.text
            found += [item["id"] for item in answer.json()["data"]]
            assert answer.json()["pagination"]["total_items"] == len(wanted)
        assert found == wanted, query


# By script: a name, searches that find it, and searches that do not.
SCRIPTS = [
    ("Crème brûlée", "creme brulee | CRÈME BRÛLÉE | cre\u0300me", "crame"),
    ("Đường Łódź", "duong lodz | đường łódź | DUONG | ŁÓD", "ouong"),
    ("Smørrebrød ærø œuvre", "smorrebrod | aero oeuvre | ÆRØ | æ", "smarrebrod"),
    ("Straße Þórður Ħal Işık", "strasse | thordur | hal | isik | ISIK | STRASSE", "strase"),  # noqa: RUF001 - Turkish
    ("Αθήνα ΟΔΌΣ", "αθηνα | ΑΘΉΝΑ | οδος | οδός", "αθηνη"),
    ("Йогурт ёлка їжак", "йогурт | ЙОГ | и\u0306огурт | елка | ЁЛКА | іжак", "иогурт | и"),  # noqa: RUF001 - Cyrillic
    ("שָׁלוֹם", "שלום | שָׁלוֹם | שלו", "לום"),
    ("مِصْباحٌ", "مصباح | مِصْباحٌ | مص", "صباح"),
    ("パパ ガラス", "パパ | ハ\u309aハ\u309a | ﾊﾟﾊﾟ | パ | ガラ", "ハハ | ハ | カラス | ばば"),
    ("हिन्दी कीमत", "हिन्दी | हिन् | की | कीमत", "हन्दी | हनद | कमत"),
    ("কোমল", "কোমল | কো | ক\u09c7\u09beমল", "কে | কমল"),
    ("தமிழ்", "தமிழ் | தமி", "தமழ | தமீ"),
    ("น้ำ ปลา", "น้ำ | น้\u0e4d\u0e32 | ปล", "นำ | ปลี"),
    ("ភាសា", "ភាសា | ភា", "ភស"),
    ("한국어", "한국어 | 하 | 한구", "국"),
    ("日本語", "日本語 | 日", "本語"),
]


async def test_search_folds_letters_of_each_script(api: Api) -> None:
    viewer = await api.caller("viewer")
    for name, finding, missing in SCRIPTS:
        product = await api.product(name=name)
        for queries, found in ((finding, [product.id]), (missing, [])):
            for query in queries.split(" | "):
                answer = await viewer.get("/products", params={"search": query})
                assert [one["id"] for one in answer.json()["data"]] == found, query
        async with api.live.db.transaction() as tx:
            await api.live[Products].delete(tx, product)


async def test_search_follows_every_change_of_a_product(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product(name="Red lamp", description="with a shade")
    where = f"/products/{product.id}"

    async def found(query: str, status: str = "active") -> int:
        answer = await editor.get("/products", params={"search": query, "status": status})
        return int(answer.json()["pagination"]["total_items"])

    assert [await found(query) for query in ("red", "shade", "lamp sha")] == [1, 1, 1]
    await editor.patch(where, json={"name": "Blue lamp"})
    assert [await found(query) for query in ("red", "blue", "shade")] == [0, 1, 1]
    await editor.patch(where, json={"description": ""})
    assert [await found(query) for query in ("shade", "blue")] == [0, 1]
    await editor.patch(where, json={"status": "archived"})
    assert [await found("blue"), await found("blue", "archived")] == [0, 1]
    await editor.delete(where)
    assert await found("blue", "archived") == 0
