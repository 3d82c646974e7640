"""A service that accepts Portico's login tokens.

pip install './clients/python[jwt]'
export PORTICO_AUTH_URL=… PORTICO_BASE_URL=… PORTICO_CA=…/tls/ca.pem
python verify_token.py 8001

curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8001/
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from portico_client import InvalidToken, PorticoError, TokenVerifier

verifier = TokenVerifier(
    issuer=os.environ.get("PORTICO_AUTH_URL", "https://localhost:8443/auth"),
    audience=os.environ.get("PORTICO_BASE_URL", "https://localhost:8443/v1"),
)


class Service(BaseHTTPRequestHandler):
    """Tells callers who they are."""

    def do_GET(self) -> None:
        """Answers a request."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            self.answer(401, {"error": "send a bearer token"})
            return
        try:
            claims = verifier.verify(token)
        except InvalidToken as refused:
            self.answer(401, {"error": str(refused)})
        except PorticoError:
            self.answer(503, {"error": "the issuer's keys cannot be fetched"})
        else:
            self.answer(200, {"user": claims.user_id, "name": claims.name, "role": claims.role})

    def answer(self, status: int, body: dict[str, object]) -> None:
        """Answers with JSON."""
        self.send_response(status)
        if status == 401:
            self.send_header("www-authenticate", "Bearer")
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service)
    print(f"http://127.0.0.1:{sys.argv[1]}/", flush=True)
    server.serve_forever()
