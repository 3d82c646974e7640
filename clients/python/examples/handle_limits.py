"""Reads every active product one by one, and stops cleanly when a limit is reached.

    export PORTICO_API_KEY=… PORTICO_CA=…/tls/ca.pem
    python handle_limits.py --patience 60 --after 0

The client itself waits for at most `--patience` seconds, up to three times per call; the limit per
minute needs 60. A longer wait, such as for the limit per day, raises an error: then this program
says where and when to continue.
"""

import argparse
import sys

from portico_client import Client, RateLimited, ServiceUnavailable

COME_BACK = 75


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="Reads every active product one by one.")
    parser.add_argument("--patience", type=float, default=60, help="seconds (default 60)")
    parser.add_argument("--after", type=int, default=0, help="the last id that was read")
    given = parser.parse_args()

    last = given.after
    with Client(patience=given.patience) as client:
        try:
            ids = sorted(product.id for product in client.products.list())
            for product_id in ids:
                if product_id > given.after:
                    product = client.products.get(product_id)
                    print(product.id, product.name, len(product.images))
                    last = product_id
        except RateLimited as limited:
            print(f"--after {last}  # in {limited.retry_after} seconds", file=sys.stderr)
            return COME_BACK
        except ServiceUnavailable:
            print(f"--after {last}  # the service is busy", file=sys.stderr)
            return COME_BACK
    return 0


if __name__ == "__main__":
    sys.exit(main())
