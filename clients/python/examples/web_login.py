"""A small web application whose users sign in with their Portico account.

    portico clients create --name Demo --redirect-uri http://127.0.0.1/callback \\
        --scope "read:products read:users"
    export CLIENT_ID=… CLIENT_SECRET=… PORTICO_CA=…/tls/ca.pem
    python web_login.py 8000

Then open http://127.0.0.1:8000/. To keep the example short, everything is in memory.
"""

import os
import secrets
import sys
from html import escape
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from portico_client import (
    APIError,
    Authorization,
    CallbackRejected,
    Client,
    OAuthApp,
    OAuthError,
    PorticoError,
)

PORT = int(sys.argv[1])
COOKIE = "demo"
SIGN_IN = "<a href='/login'>Sign in with Portico</a>"
SILENCE = "Portico does not answer just now. Try again later."

begun: dict[str, Authorization] = {}  # by cookie, while the browser is at Portico
clients: dict[str, Client] = {}
"""The clients of signed-in users, by cookie. A refresh token can be used once, so all requests of a
browser share one client, which renews the tokens for all of them."""

app = OAuthApp(
    os.environ["CLIENT_ID"],
    os.environ.get("CLIENT_SECRET"),
    redirect_uri=f"http://127.0.0.1:{PORT}/callback",
)


class Pages(BaseHTTPRequestHandler):
    """The application's pages."""

    def do_GET(self) -> None:
        """Answers a request."""
        cookies = SimpleCookie(self.headers.get("cookie", ""))
        browser = cookies[COOKIE].value if COOKIE in cookies else ""
        page = self.path.partition("?")[0]
        if page == "/login":
            self.begin()
        elif page == "/callback":
            self.complete(browser)
        elif client := clients.get(browser):
            self.welcome(client, browser)
        else:
            self.show(SIGN_IN)

    def begin(self) -> None:
        """Sends the browser to Portico."""
        browser = secrets.token_urlsafe()
        begun[browser] = app.begin("openid read:products read:users")
        self.redirect(begun[browser].url, browser)

    def complete(self, browser: str) -> None:
        """Signs in the user whose browser comes back from Portico."""
        try:
            tokens = app.complete(self.path, begun.pop(browser))
        except (KeyError, CallbackRejected):
            self.show("This did not begin here. <a href='/login'>Try again</a>", 400)
        except OAuthError as refused:
            self.show(f"You are not signed in: {escape(refused.message)}", 403)
        except PorticoError:
            self.show(SILENCE, 503)
        else:
            signed_in = secrets.token_urlsafe()  # a new cookie prevents session fixation
            clients[signed_in] = Client(auth=tokens)
            self.redirect("/", signed_in)

    def welcome(self, client: Client, browser: str) -> None:
        """Shows the page for signed-in users."""
        try:
            name = client.me().name
            total = client.products.list().page(1).pagination.total_items
        except PorticoError as failure:
            if isinstance(failure, APIError) and failure.status in (400, 401):
                clients.pop(browser, None)  # the tokens have expired or were revoked
                self.show(SIGN_IN)
            else:
                self.show(SILENCE, 503)
        else:
            self.show(f"Hello {escape(name)}, there are {total} products.")

    def show(self, html: str, status: int = 200) -> None:
        """Answers with a page."""
        self.send_response(status)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(html.encode())

    def redirect(self, url: str, browser: str) -> None:
        """Redirects the browser, with a cookie that identifies it."""
        self.send_response(303)
        self.send_header("location", url)
        self.send_header("set-cookie", f"{COOKIE}={browser}; Path=/; HttpOnly; SameSite=Lax")
        self.end_headers()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Pages)
    print(f"http://127.0.0.1:{PORT}/", flush=True)
    server.serve_forever()
