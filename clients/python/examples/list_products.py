"""Lists products in stock, by words and price.

export PORTICO_API_KEY=… PORTICO_CA=…/tls/ca.pem
python list_products.py --max-price 30 desk lamp
"""

import argparse
from decimal import Decimal

from portico_client import Client, ProductFilters


def main() -> None:
    """Prints a line for each product, and how many there are."""
    parser = argparse.ArgumentParser(description="Lists what is in stock.")
    parser.add_argument("words", nargs="*", help="to be found in name or description")
    parser.add_argument("--category")
    parser.add_argument("--max-price", type=Decimal)
    given = parser.parse_args()

    filters: ProductFilters = {"in_stock": True, "search": " ".join(given.words)}
    if given.category is not None:
        filters["category"] = given.category
    if given.max_price is not None:
        filters["max_price"] = given.max_price

    with Client() as client:
        products = client.products.list(**filters)
        for product in products:  # reads further pages as needed
            print(f"{product.id:>6}  {product.price:>10} {product.currency}  {product.name}")
        print(f"{products.page(1).pagination.total_items} products")


if __name__ == "__main__":
    main()
