"""Receives the deliveries of a webhook, and verifies that Portico signed them.

export WEBHOOK_SECRET=whsec_…   # shown when the webhook is created
python receive_webhooks.py 8002
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from portico_client import InvalidDelivery, verify_webhook

secret = os.environ["WEBHOOK_SECRET"]
seen: set[int] = set()
"""A real service would store these in a database table."""


class Receiver(BaseHTTPRequestHandler):
    """Prints each event once."""

    def do_POST(self) -> None:
        """Handles a delivery."""
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = verify_webhook(body, self.headers, secret)
        except InvalidDelivery as refusal:
            self.send_error(400, str(refusal))
            return
        if event.id not in seen:
            seen.add(event.id)
            print(event.type, event.data, flush=True)
        self.send_response_only(204)
        self.end_headers()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"http://127.0.0.1:{sys.argv[1]}/", flush=True)
    server.serve_forever()
