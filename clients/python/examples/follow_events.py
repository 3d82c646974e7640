"""Prints events as they happen, and resumes where it was when it is restarted.

export PORTICO_API_KEY=… PORTICO_CA=…/tls/ca.pem
python follow_events.py last-event --type 'product.*,products.imported,user.*'
"""

import argparse
from pathlib import Path

from portico_client import Client, Gone

arguments = argparse.ArgumentParser()
arguments.add_argument("place", type=Path, help="a file for the id of the last event")
arguments.add_argument("--type", default="product.*,products.imported")


def main() -> int:
    """Prints one line for each event. Returns the exit code."""
    given = arguments.parse_args()
    after = int(given.place.read_text()) if given.place.exists() else 0
    try:
        with Client() as client, client.events.stream(type=given.type, after=after) as events:
            for event in events:
                match event.type:
                    case "product.created" | "product.updated" | "product.deleted":
                        print(event.id, event.type, event.data.name, flush=True)
                    case _:
                        print(event.id, event.type, flush=True)
                given.place.write_text(str(event.id))
    except Gone as gone:
        print(gone.message)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
