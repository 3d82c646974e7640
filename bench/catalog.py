"""The generated catalogue of all measured servers. The same size gives the same products.

`zanzibar` is in exactly 20 products and `cotton` in a fifth of them, as a rare and a common word to
search for. No other word begins like them.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RARE_WORD = "zanzibar"
RARE_COUNT = 20
COMMON_WORD = "cotton"
COMMON_SHARE = 5

_CATEGORIES = ("Bags", "Garden", "Kitchen", "Lamps", "Office", "Shirts", "Shoes", "Toys")
_QUALITIES = ("Blue", "Compact", "Durable", "Folding", "Gentle", "Heavy", "Little", "Plain", "Warm")
_THINGS = ("Basket", "Chair", "Jacket", "Kettle", "Ladder", "Notebook", "Scarf", "Table", "Vase")
_WORDS = (
    *("about", "again", "bright", "careful", "daily", "easy", "every", "family", "fits", "gives"),
    *("handmade", "inside", "keeps", "light", "made", "matching", "natural", "ordinary", "pocket"),
    *("quiet", "ready", "repair", "simple", "soft", "steel", "strong", "summer", "tested"),
    *("travel", "useful", "washable", "water", "weather", "weekend", "whole", "winter", "years"),
)


def products(count: int) -> Iterator[dict[str, Any]]:
    """`count` products as `POST /v1/products` takes them, all of them active."""
    choose = random.Random(count)  # noqa: S311  the same catalogue each time, on purpose
    rare_step = max(1, count // RARE_COUNT)
    for number in range(count):
        quality, thing = choose.choice(_QUALITIES), choose.choice(_THINGS)
        words = choose.choices(_WORDS, k=choose.randrange(8, 25))
        name = f"{quality} {thing} {number + 1}"
        if number % (2 * COMMON_SHARE) == 2:
            name = f"{quality} {COMMON_WORD.title()} {thing} {number + 1}"
        elif number % COMMON_SHARE == 2:
            words[len(words) // 2] = COMMON_WORD
        if number % rare_step == rare_step // 2 and number // rare_step < RARE_COUNT:
            words[0] = RARE_WORD
        yield {
            "name": name,
            "description": f"{' '.join(words).capitalize()}.",
            "category": choose.choice(_CATEGORIES),
            "price": choose.randrange(199, 99_999) / 100,
            "currency": "EUR",
            "stock_quantity": choose.randrange(0, 500),
            "status": "active",
        }


def write_ndjson(path: Path, count: int) -> None:
    """Writes `count` products to `path`, one JSON object per line, holding one at a time."""
    with path.open("w", encoding="utf-8") as file:
        for product in products(count):
            file.write(json.dumps(product) + "\n")


def new_product() -> str:
    """The JSON of one product to create, with `{N}` in its name where a number goes."""
    return json.dumps({**next(products(1)), "name": "Made to measure {N}"})
