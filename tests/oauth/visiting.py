"""A user's browser as far as a server can tell: its cookies, its forms, and where its requests
come from. It shows nothing and runs no script.
"""

import itertools
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

_ADDRESSES: Iterator[str] = (f"127.0.{number >> 8}.{number & 255}" for number in itertools.count(2))


@dataclass(frozen=True)
class Person:
    """Somebody with an account."""

    id: int
    email: str
    password: str


@dataclass
class Form:
    """A form of a page: where it leads, and what it would send without a button."""

    action: str
    sent: dict[str, str] = field(default_factory=dict)
    buttons: set[str] = field(default_factory=set)


class _Forms(HTMLParser):
    """Finds the forms of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._ahead: dict[str, dict[str, str]] = {}
        """What stands before the form that it belongs to, by the form's id."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            ahead = self._ahead.get(given.get("id", ""), {})
            self.found.append(Form(given["action"], {**ahead}))
        elif tag == "input" and "form" in given:
            of = self._ahead.setdefault(given["form"], {})
            of[given["name"]] = given.get("value", "")
        elif tag == "input" and self.found:
            self.found[-1].sent[given["name"]] = given.get("value", "")
        elif tag == "button" and self.found and "name" in given:
            self.found[-1].buttons.add(given["name"])


@dataclass(frozen=True)
class Page:
    """What the browser arrived at: a page of the server, or (303) the way to another site."""

    url: str
    response: httpx.Response

    @property
    def status(self) -> int:
        """Its status."""
        return self.response.status_code

    @property
    def text(self) -> str:
        """Its text."""
        return self.response.text

    @property
    def forms(self) -> list[Form]:
        """Its forms, in order."""
        parser = _Forms()
        parser.feed(self.text)
        return parser.found

    @property
    def left_for(self) -> str:
        """The address on another site that it leads to."""
        assert self.status == 303, self.text
        return self.response.headers["location"]

    @property
    def told(self) -> dict[str, str]:
        """The parameters that the client gets there, each once."""
        query = parse_qs(urlsplit(self.left_for).query, keep_blank_values=True)
        assert all(len(values) == 1 for values in query.values()), query
        return {name: values[0] for name, values in query.items()}

    def has(self, *names: str) -> bool:
        """Whether it has a form that takes these."""
        return any(takes(form, *names) for form in self.forms)


def takes(form: Form, *names: str) -> bool:
    """Whether a form has fields or buttons of these names."""
    return set(names) <= form.sent.keys() | form.buttons


class Browser:
    """A browser at an address of its own, before `person`."""

    def __init__(self, origin: str, authority: Path, person: Person) -> None:
        self.origin = origin
        self.person = person
        self.cookies: dict[str, str] = {}
        trusting = ssl.create_default_context(cafile=authority)
        transport = httpx.HTTPTransport(verify=trusting, local_address=next(_ADDRESSES))
        self._client = httpx.Client(transport=transport, timeout=30)

    def close(self) -> None:
        """Ends its connections."""
        self._client.close()

    def ask(
        self,
        method: str,
        url: str,
        *,
        site: str = "same-origin",
        data: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """One request of a page of this `site` (as `Sec-Fetch-Site` has it); cookies are strict."""
        sent = {
            "sec-fetch-site": site,
            "sec-fetch-mode": "navigate",
            "sec-fetch-dest": "document",
            **(headers or {}),
        }
        if self.cookies and site in ("same-origin", "none"):
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        response = self._client.request(method, url, data=data, headers=sent)
        self._client.cookies.clear()
        for header in response.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(header).items():
                assert morsel["secure"]
                assert morsel["httponly"]
                assert morsel["samesite"] == "Strict"
                self.cookies[name] = morsel.value
                if morsel["max-age"] == "0":
                    del self.cookies[name]
        return response

    def visit(self, url: str, *, site: str = "cross-site") -> Page:
        """Follows a link on a page of this site, and the redirects after it until they leave."""
        return self._follow(url, self.ask("GET", url, site=site), site)

    def submit(self, page: Page, **values: str) -> Page:
        """Fills in the form that takes these values, and sends it."""
        form = next(form for form in page.forms if takes(form, *values))
        url = urljoin(page.url, form.action)
        sent = {**form.sent, **values}
        response = self.ask("POST", url, data=sent, headers={"origin": self.origin})
        return self._follow(url, response, "same-origin")

    def sign_in(self, page: Page) -> Page:
        """Signs in where the page wants that."""
        return self.submit(page, email=self.person.email, password=self.person.password)

    def arrive(self, url: str) -> Page:
        """The page behind a link on another site, after signing in where that is wanted."""
        page = self.visit(url)
        return self.sign_in(page) if page.has("email", "password") else page

    def decide(self, url: str, decision: str = "allow") -> str:
        """The address at the client that the browser comes back to after `allow` or `deny`. What
        was allowed before is not asked again, unless it is to be denied now."""
        page = self.arrive(url if decision == "allow" else f"{url}&prompt=consent")
        asks = page.has("decision")
        return (self.submit(page, decision=decision) if asks else page).left_for

    def _follow(self, url: str, response: httpx.Response, site: str) -> Page:
        while True:
            if response.status_code == 303:
                assert not response.content
                onward = urljoin(url, response.headers["location"])
                if not onward.startswith(f"{self.origin}/"):
                    return Page(url, response)
                url = onward
            elif 'http-equiv="refresh"' in response.text:
                site = "same-origin"
            else:
                return Page(url, response)
            response = self.ask("GET", url, site=site)
