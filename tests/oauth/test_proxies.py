"""The proxies of `deploy/`, as they are but for names, ports and files, in front of a server."""

import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from oauth.authority import ROOMY, Authority
from operating import Answer, Installation, free_port, read_answer, until

DEPLOY = Path(__file__).parents[2] / "deploy"
REDIRECT = "https://shop.example/".ljust(2_000, "c")
STATE = '{"":' * 1_024
NONCE = '{"":' * 500
"""With `STATE`, the longest values that a client may send. Their characters are escaped, by three
bytes in an address and by five in an address within it."""

OTHER = "127.0.0.2"
"""Another address of the loopback network."""


Bound = Callable[[Authority, ExitStack], None]


def at_once(authority: Authority, stack: ExitStack) -> None:
    """nginx refuses one more request at once than an address may have."""
    for _ in range(100):
        connection = stack.enter_context(connected(authority, "127.0.0.3"))
        connection.sendall(
            b"POST /v1/products HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
        )

    def refuses() -> bool:
        with connected(authority, "127.0.0.3") as connection:
            return ask(connection).status == 429

    until(refuses, "the bound")


def connections(authority: Authority, stack: ExitStack) -> None:
    """HAProxy takes no more connections than an address may have."""
    for _ in range(256):
        stack.enter_context(connected(authority, "127.0.0.3"))
    with pytest.raises(OSError, match=r"reset|EOF"):
        connected(authority, "127.0.0.3")


@dataclass(frozen=True)
class Place:
    """Where a proxy and the server behind it are."""

    directory: Path
    data: Path
    front: int
    back: int

    def write(self, name: str, *changes: tuple[str, str]) -> Path:
        """A copy of a file of `deploy/` with these changes, each a pattern that is found."""
        text = (DEPLOY / name).read_text("utf-8")
        for pattern, instead in changes:
            text, count = re.subn(pattern, instead, text)
            assert count, pattern
        file = self.directory / name
        file.write_text(text)
        return file


Command = tuple[list[str], dict[str, str]]
"""A program with its arguments, and what its environment has beside ours."""


def nginx(place: Place) -> Command:
    certificate, key = (f"{place.data}/tls/server.{end}" for end in ("pem", "key"))
    site = place.write(
        "nginx.conf",
        (r"127\.0\.0\.1:8080", f"127.0.0.1:{place.back}"),
        (r"listen (\[::\]:)?80;\n", ""),
        (r"listen \[::\]:443 ssl;\n", ""),
        (r"listen 443 ssl", f"listen 127.0.0.1:{place.front} ssl"),
        (r"/etc/nginx/portico\.pem", certificate),
        (r"/etc/nginx/portico\.key", key),
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {place.directory}/{kind};\n" for kind in kinds)
    whole = place.directory / "whole.conf"
    whole.write_text(
        f"daemon off;\nmaster_process off;\npid {place.directory}/nginx.pid;\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}include {site};\n}}\n"
    )
    return [program("nginx"), "-e", "stderr", "-c", str(whole)], {}


def caddy(place: Place) -> Command:
    tls = place.data / "tls"
    file = place.write(
        "Caddyfile",
        (r"127\.0\.0\.1:8080", f"127.0.0.1:{place.back}"),
        (r"\n\{\n", "\n{\n\tadmin off\n"),
        (
            r"https://portico\.example\.com, http://portico\.example\.com \{\n",
            f"https://localhost:{place.front} {{\n\ttls {tls}/server.pem {tls}/server.key\n",
        ),
    )
    home = str(place.directory)
    return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(file)], {
        "XDG_DATA_HOME": home,
        "XDG_CONFIG_HOME": home,
    }


def haproxy(place: Place) -> Command:
    tls, pair = place.data / "tls", place.directory / "portico.pem"
    pair.write_text((tls / "server.pem").read_text() + (tls / "server.key").read_text())
    hosts = {f"FRONT_{one}": f"127.0.0.1:{place.back}" for one in ("ONE", "TWO", "THREE")}
    return [program("haproxy"), "-db", "-f", str(DEPLOY / "haproxy.cfg")], {
        "FRONT_LISTEN": f"127.0.0.1:{place.front}",
        "FRONT_STATUS": f"127.0.0.1:{free_port()}",
        "FRONT_CERTIFICATE": str(pair),
        "FRONT_AUTHORITY": str(tls / "ca.pem"),
        "FRONT_NAME": "localhost",
        **hosts,
    }


def program(name: str) -> str:
    """The path of an installed program."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, f"install {name}: script/dependencies"
    return found


@contextmanager
def proxied(proxy: Callable[[Place], Command], directory: Path) -> Iterator[Authority]:
    """A server behind a proxy."""
    (directory / "portico.toml").write_text(ROOMY)
    empty = Installation(directory)
    facts = empty.told("init")
    place = Place(directory, empty.data, free_port(), empty.port)
    origin = f"https://localhost:{place.front}"
    behind = Installation(directory, facts=facts, port=place.front).having(
        port=str(place.back),
        tls="on" if proxy is haproxy else "off",
        trusted_proxies="127.0.0.1",
        base_url=f"{origin}/v1",
        sandbox_url=f"{origin}/sandbox/v1",
        auth_url=f"{origin}/auth",
        dashboard_url=f"{origin}/dashboard",
    )
    arguments, environment = proxy(place)
    with behind.serving(), subprocess.Popen(arguments, env=os.environ | environment) as running:
        try:
            authority = Authority(behind)
            until(lambda: status(authority) == 200, "the proxy")
            yield authority
        finally:
            running.terminate()


def status(authority: Authority) -> int:
    """The status of `/healthz`, or 0 if there is no answer."""
    try:
        with connected(authority, OTHER) as connection:
            return ask(connection).status
    except OSError:
        return 0


def connected(authority: Authority, address: str) -> ssl.SSLSocket:
    """A connection from this address."""
    context = ssl.create_default_context(cafile=authority.certificate)
    plain = socket.create_connection(
        ("127.0.0.1", authority.installation.port), timeout=30, source_address=(address, 0)
    )
    return context.wrap_socket(plain, server_hostname="localhost")


def ask(connection: socket.socket) -> Answer:
    """Asks whether the server lives."""
    connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    return read_answer(connection)


@pytest.mark.parametrize(
    ("proxy", "bound"), [(nginx, at_once), (haproxy, connections), (caddy, None)]
)
def test_a_proxy_passes_the_longest_request_and_bounds_one_address(
    tmp_path: Path, proxy: Callable[[Place], Command], bound: Bound | None
) -> None:
    with proxied(proxy, tmp_path) as authority:
        with authority.browser() as browser:
            client = authority.register(REDIRECT)
            url = authority.asking(client, REDIRECT, state=STATE, nonce=NONCE, scope="openid")
            back = browser.submit(browser.arrive(url), decision="allow")
        assert back.told["state"] == STATE
        assert authority.exchange(client, back.told["code"], REDIRECT).status_code == 200
        if bound is None:
            return
        with ExitStack() as stack:
            bound(authority, stack)
            assert status(authority) == 200, "another address goes on"
        with connected(authority, "127.0.0.1") as connection:
            answers = (ask(connection) for _ in range(5_000))
            refused = next(one for one in answers if one.status != 200)
        assert refused.status == 429
        assert refused.json["error"]["code"] == "RATE_LIMITED"
        assert refused.headers["retry-after"] == "1"
        assert status(authority) == 200
