"""A page that somebody else serves, at an origin of its own."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Elsewhere(ThreadingHTTPServer):
    """Serves one page on a loopback address, and the scripts in `scripts` by the first part of
    their paths."""

    page = ""
    sent_on = ""
    """Where whoever comes to /callback is sent on, if anywhere."""

    def __init__(self, tls: Path | None = None) -> None:
        """With a certificate and its key in the directory `tls`, over https."""
        super().__init__(("127.0.0.1", 0), _Page)
        self.scripts: dict[str, Path] = {}
        self._scheme = "http"
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls / "server.pem", tls / "server.key")
            # Each thread shakes hands for itself.
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
            self._scheme = "https"

    @property
    def origin(self) -> str:
        """Its scheme, host and port."""
        return f"{self._scheme}://127.0.0.1:{self.server_port}"


class _Page(BaseHTTPRequestHandler):
    server: Elsewhere

    def do_GET(self) -> None:
        if self.server.sent_on and self.path.startswith("/callback?"):
            self.send_response(302)
            self.send_header("Location", self.server.sent_on)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body, kind = self.server.page.encode(), "text/html"
        _, first, *inner = self.path.partition("?")[0].split("/")
        if first in self.server.scripts:
            body, kind = self.server.scripts[first].joinpath(*inner).read_bytes(), "text/javascript"
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving_elsewhere(tls: Path | None = None) -> Iterator[Elsewhere]:
    """A running server."""
    with Elsewhere(tls) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
