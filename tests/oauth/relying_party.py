"""A program that is told of ended sessions: it verifies each logout token as Back-Channel Logout
§2.6 says, with the keys that the server publishes, and prints the session, or what is wrong.

Its arguments are the issuer, the client_id, and the authority to trust.
"""

import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet

EVENT = "http://schemas.openid.net/event/backchannel-logout"

issuer, client_id, authority = sys.argv[1:]


def say(text: str) -> None:
    """A line for the test."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Receiver(BaseHTTPRequestHandler):
    """Answers 200 to a valid token, and 400 to all else."""

    def do_POST(self) -> None:
        """POST /ended."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        try:
            say(verified(parse_qs(body)["logout_token"][0]))
            status = 200
        except Exception as error:  # noqa: BLE001 - the test reads what it was
            say(repr(error))
            status = 400
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: standard output is for the test."""


def verified(token: str) -> str:
    """The session that a logout token is about."""
    trust = ssl.create_default_context(cafile=authority)
    keys = httpx.get(f"{issuer}/.well-known/jwks.json", verify=trust).json()
    signed = jwt.decode(token, KeySet.import_key_set(keys), algorithms=["RS256"])
    claims = signed.claims
    assert signed.header["typ"] == "logout+jwt"
    assert (claims["iss"], claims["aud"]) == (issuer, client_id)
    assert claims["iat"] <= time.time() + 5
    assert time.time() < claims["exp"] <= claims["iat"] + 120
    assert claims["events"] == {EVENT: {}}
    assert claims["jti"]
    assert "nonce" not in claims
    return f"{claims['sub']} {claims['sid']}"


server = HTTPServer(("127.0.0.1", 0), Receiver)
say(str(server.server_port))
server.serve_forever()
