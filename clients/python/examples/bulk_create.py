"""Creates a product from each row of a CSV file, ten at once, and shows its progress.

    export PORTICO_API_KEY=… PORTICO_CA=…/tls/ca.pem
    python bulk_create.py products.csv

The file begins with the line `name,category,price`. If the program is interrupted, run it again:
each row has an idempotency key of its own, so nothing is created twice within 24 hours.
"""

import asyncio
import csv
import hashlib
import sys
from decimal import Decimal
from pathlib import Path

from portico_client import AsyncClient, ValidationError

AT_ONCE = 10


async def create(client: AsyncClient, line: int, row: dict[str, str]) -> str | None:
    """Creates one product. Returns what is wrong with the row, or None."""
    key = hashlib.sha256(f"{line} {sorted(row.items())}".encode()).hexdigest()
    try:
        await client.products.create(
            name=row["name"],
            category=row["category"],
            price=Decimal(row["price"]),
            idempotency_key=key,
        )
    except ValidationError as error:
        faults = "; ".join(f"{fault.field} {fault.message}" for fault in error.details)
        return f"line {line}: {faults}"
    except ArithmeticError:
        return f"line {line}: price {row['price']!r} is not a number"
    return None


async def main(path: Path) -> int:
    """Returns how many rows were wrong."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    gate, done, faults = asyncio.Semaphore(AT_ONCE), 0, 0

    async def one(line: int, row: dict[str, str]) -> None:
        nonlocal done, faults
        async with gate:
            fault = await create(client, line, row)
        done += 1
        if fault is not None:
            faults += 1
            print(fault)
        print(f"\r{done} of {len(rows)}", end="", file=sys.stderr, flush=True)

    async with AsyncClient() as client, asyncio.TaskGroup() as tasks:
        for line, row in enumerate(rows, start=2):
            tasks.create_task(one(line, row))
    print(file=sys.stderr)
    print(f"{done - faults} created, {faults} wrong")
    return faults


if __name__ == "__main__":
    sys.exit(min(1, asyncio.run(main(Path(sys.argv[1])))))
