"""The OpenAPI documents of every mounted version and of the authorization server, and the
reference, which is made of them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from shlex import quote
from textwrap import dedent, indent
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec
from markupsafe import Markup
from msgspec.structs import replace

from portico.core.errors import NotFound, PorticoError
from portico.core.plans import Plan
from portico.core.services import Service
from portico.environment import Addresses, Environment
from portico.openapi.document import DocumentPart, auth_document, document, operation_id
from portico.openapi.webhooks import TAG as DELIVERIES
from portico.settings import SettingError
from portico.web.cors import PUBLISHED, Sharing
from portico.web.messages import JSON, Reply, Request
from portico.web.pages.files import (
    DOCS_ASSETS,
    HTML,
    REVALIDATED,
    SCRIPTED,
    File,
    asset_routes,
    file_route,
    page_route,
)
from portico.web.pages.html import template
from portico.web.pages.site import html
from portico.web.reference.pages import Edition, PagePlace, Reference, Sandbox
from portico.web.routing import AnyRoute, Mount, Responder

Json = Mapping[str, Any]

_BY_SESSION = " Without one, this browser's session in the sandbox is sent, if there is one."

_SNIPPETS = Path(__file__).parent / "snippets"
_PYTHON = re.compile(r"^def (\w+)\((.*)\) -> None:\n((?:    .*\n)+)", re.MULTILINE)
_TYPESCRIPT = re.compile(r"^export async function (\w+)\((.*)\) \{\n((?:  .*\n)+)\}", re.MULTILINE)
_PYTHON_IMPORT = re.compile(r"^(from \w+ import )(.+)()$", re.MULTILINE)
_TYPESCRIPT_IMPORT = re.compile(r"^(import \{ )(.+)( \} from .+)$", re.MULTILINE)


class _Snippets(NamedTuple):
    """The content of a snippet file: operations with their parameters and code, and its imports."""

    calls: dict[str, tuple[str, str]]
    imports: list[tuple[str, list[str], str]]

    def importing(self, text: str) -> str:
        """The program with the imports that it needs."""
        lines = []
        for start, names, end in self.imports:
            if used := [name for name in names if re.search(rf"\b{name}\b", text)]:
                lines.append(f"{start}{', '.join(used)}{end}\n")
        return "".join([*lines, "\n", text])


def with_samples(document: Json, addresses: Addresses) -> Json:
    """A document whose operations have `x-codeSamples` of the clients that have the call, for those
    who read these addresses."""
    paths = {
        path: {
            method: {**operation, "x-codeSamples": _samples(operation["operationId"], addresses)}
            for method, operation in item.items()
        }
        for path, item in document["paths"].items()
    }
    return {**document, "paths": paths}


def _samples(operation: str, addresses: Addresses) -> list[Json]:
    programs = (("Python", _python), ("TypeScript", _typescript))
    return [
        {"lang": language, "source": text}
        for language, program in programs
        if (text := program(operation, addresses))
    ]


@cache
def _snippets(name: str) -> _Snippets:
    is_python = name.endswith(".py")
    text = _SNIPPETS.joinpath(name).read_text("utf-8")
    found = (_PYTHON if is_python else _TYPESCRIPT).findall(text)
    imports = (_PYTHON_IMPORT if is_python else _TYPESCRIPT_IMPORT).findall(text)
    return _Snippets(
        {operation: (parameters, dedent(body)) for operation, parameters, body in found},
        [(start, names.split(", "), end) for start, names, end in imports],
    )


def _python(operation: str, addresses: Addresses) -> str:
    snippets = _snippets("python.py")
    parameters, text = snippets.calls.get(operation, ("", ""))
    ca = [f"ca={json.dumps(str(addresses.authority))}"] if addresses.authority else []
    where = [f'base_url="{addresses.base}"', *ca]
    if _auth_is_elsewhere(addresses):
        where.append(f'auth_url="{addresses.auth}"')
    if parameters == "client: Client":
        made = _call("Client(", where, ")")
        text = f"# The key is in PORTICO_API_KEY.\nclient = {made}\n{text}"
    text = text.replace("Client(auth=ada)", _call("Client(", [*where, "auth=ada"], ")"))
    own = [f'auth_url="{addresses.auth}"', *ca]
    text = re.sub(
        r"OAuthApp\((.+)\)",
        lambda app: _call("OAuthApp(", [*app[1].split(", "), *own], ")"),
        text,
    )
    return text and snippets.importing(text)


def _typescript(operation: str, addresses: Addresses) -> str:
    snippets = _snippets("typescript.ts")
    parameters, text = snippets.calls.get(operation, ("", ""))
    where = [f'baseUrl: "{addresses.base}"']
    if _auth_is_elsewhere(addresses):
        where.append(f'authUrl: "{addresses.auth}"')
    if parameters == "client: Client":
        made = _call("new Client({ ", where, " })")
        text = f"// The key is in PORTICO_API_KEY.\nconst client = {made};\n{text}"
    with_ada = _call("new Client({ ", [*where, "auth: ada"], " })")
    text = text.replace("new Client({ auth: ada })", with_ada)
    text = re.sub(r"(  redirectUri: .+\n)", rf'\1  authUrl: "{addresses.auth}",\n', text)
    if text and addresses.authority:
        authority = quote(str(addresses.authority))
        text = f"// Start it with NODE_EXTRA_CA_CERTS={authority}\n{text}"
    return text and snippets.importing(text)


def _auth_is_elsewhere(addresses: Addresses) -> bool:
    """Whether the clients need `auth_url`, since it does not follow from the API's address."""
    return addresses.auth != urljoin(addresses.base, "auth")


def _call(start: str, arguments: list[str], end: str) -> str:
    """A call, with one argument per line if there are several."""
    if len(arguments) == 1:
        return f"{start}{arguments[0]}{end}"
    lines = indent("".join(f"{each},\n" for each in arguments), "  " if "{" in start else "    ")
    return f"{start.strip()}\n{lines}{end.strip()}"


def docs_mounts(
    mount: Mount,
    beside: Sequence[Mount],
    auth_routes: Sequence[AnyRoute],
    plans: Mapping[str, Plan],
    responder: Responder,
) -> Iterator[Mount]:
    """The documentation of an API mount: its `openapi.json`, `docs` with a page for each operation
    and their assets, and the authorization server's `openapi.json` unless the version is
    superseded.

    `beside` are the mounts of the same API in all environments, the live one first; `auth_routes`
    are the authorization server's, `plans` what the limits allow.
    """
    env = mount.environment
    addresses = env.addresses
    own = DocumentPart(addresses.base, mount.routes)
    auth = DocumentPart(addresses.auth, () if mount.extra_headers else auth_routes)
    described = partial(document, site_name=env.settings.site_name)
    alone = partial(described, own, DocumentPart(addresses.auth, ()), plans, mount.extra_headers)
    together = partial(described, own, auth, plans, mount.extra_headers)

    @cache
    def reference(addresses: Addresses) -> Reference:
        note = template("authority_copy.html").render(needs_copy=addresses.needs_copy)
        # A superseded version is documented, but cannot be tried.
        sandbox = None if mount.extra_headers else _sandbox(env, "", "", _BY_SESSION)
        place = _place(env, beside, addresses, sandbox)
        place = place._replace(note=Markup(note))  # noqa: S704 - our own
        return Reference(shown(together(), addresses), place)

    names = [*(operation_id(route) for route in (*own.routes, *auth.routes)), DELIVERIES]
    below = replace(mount, responder=responder, cors=PUBLISHED)
    yield from _reference_mounts(below, reference, names, _json_route(alone))
    if auth.routes:
        at = urlsplit(auth.address)
        of_auth = partial(auth_document, auth, own.address, plans, site_name=env.settings.site_name)
        yield replace(
            below, host=at.netloc, prefix=at.path, name="auth", routes=(_json_route(of_auth),)
        )


def service_docs_mounts(
    mount: Mount, beside: Sequence[Mount], service: Service, responder: Responder
) -> Iterator[Mount]:
    """The documentation of a service beside that of an API mount, as `docs_mounts`. Raises
    `SettingError` if its document cannot be shown."""
    env = mount.environment
    below = f"/docs/services/{service.name}"
    described = _of_service(service, env.addresses)
    tryable = bool(service.path and service.sandbox_upstream)
    sandbox = _sandbox(env, service.path or "", below) if tryable else None

    @cache
    def reference(addresses: Addresses) -> Reference:
        place = _place(env, beside, addresses, sandbox, below)
        return Reference(_of_service(service, addresses), place)

    try:
        made = reference(env.addresses)
        made.index()
        for name in made.names:
            made.page(name)
    except Exception as error:  # whatever a document lacks
        reason = f"{type(error).__name__}: {error}"
        raise SettingError(f"services.{service.name}.openapi cannot be shown: {reason}") from error
    at_service = replace(
        mount,
        prefix=f"{mount.prefix}{below}",
        name=f"{mount.name}{below}",
        responder=responder,
        cors=PUBLISHED,
    )
    json_route = _json_route(lambda: dict(described))
    yield from _reference_mounts(at_service, reference, made.names, json_route)


def _of_service(service: Service, addresses: Addresses) -> Json:
    """A service's document; where Portico forwards, with the address and credentials of that."""
    document = dict(service.openapi or {})
    if service.path is None:
        return document
    document["servers"] = [{"url": addresses.base + service.path}]
    if "security" not in document:
        bearer = {"type": "http", "scheme": "bearer", "description": "An API key or a token."}
        components = document.get("components", {})
        schemes = {**components.get("securitySchemes", {}), "portico": bearer}
        document["components"] = {**components, "securitySchemes": schemes}
        document["security"] = [{"portico": []}]
    return document


def _sandbox(env: Environment, path: str, below: str, more: str = "") -> Sandbox:
    """Where what is at `path` can be tried, whose reference is `below` the API's."""
    tested = (env.mirror or env).addresses
    hint = f"From [the dashboard]({tested.dashboard}/keys).{more}"
    return Sandbox(f"{tested.base}{path}", f"{tested.base}{below}/docs", "Test key", hint)


def _place(
    env: Environment,
    beside: Sequence[Mount],
    addresses: Addresses,
    sandbox: Sandbox | None,
    below: str = "",
) -> PagePlace:
    """The place of a reference `below` an API's, with links to the references of services too, if
    there are any."""
    services = [
        Edition(str(one.openapi["info"]["title"]), f"{addresses.base}/docs/services/{one.name}")
        for one in env.settings.declared.services.values()
        if one.openapi
    ]
    return PagePlace(
        addresses.base + below,
        curl=addresses.curl,
        home=addresses.dashboard,
        editions=[
            Edition(one.environment.name.capitalize(), one.environment.addresses.base + below)
            for one in beside
        ],
        sandbox=sandbox,
        others=services and [Edition(env.settings.site_name, addresses.base), *services],
    )


def _reference_mounts(
    below: Mount,
    reference: Callable[[Addresses], Reference],
    names: Sequence[str],
    json_route: AnyRoute,
) -> Iterator[Mount]:
    """A document, its reference and its assets."""
    addresses = below.environment.addresses

    def page(name: str, text: Callable[[Reference], str]) -> AnyRoute:
        def make(*, here: bool) -> File:
            made = text(reference(addresses.read(here=here)))
            return File(HTML, made.encode(), REVALIDATED, SCRIPTED)

        return page_route(name, partial(make, here=True), partial(make, here=False))

    routes = (json_route, page("docs", Reference.index), *asset_routes(DOCS_ASSETS))
    yield replace(below, routes=routes)
    yield replace(
        below,
        prefix=f"{below.prefix}/docs",
        name=f"{below.name}/docs",
        routes=tuple(page(name, partial(Reference.page, name=name)) for name in names),
        responder=_ReferenceResponder(
            below.responder, cache(lambda: reference(addresses.read(here=False)).nowhere())
        ),
    )


def shown(document: Mapping[str, Any], addresses: Addresses) -> Mapping[str, Any]:
    """The document as its reference shows it to those who read these addresses: with samples for
    the clients, and lines for curl that trust the local authority."""
    info = document["info"]
    described = info["description"].replace("\ncurl ", f"\n{addresses.curl} ")
    return with_samples({**document, "info": {**info, "description": described}}, addresses)


class _ReferenceResponder:
    """Answers below the reference's first page as for files, but an unknown path gets a page."""

    def __init__(self, files: Responder, nowhere: Callable[[], str]) -> None:
        self._files = files
        self._nowhere = nowhere
        self.serves = files.serves
        self.answer = files.answer

    def problem(self, request: Request, error: PorticoError) -> Reply:
        """An error as a reply."""
        if isinstance(error, NotFound):
            return html(self._nowhere(), 404)
        return self._files.problem(request, error)


def _json_route(make: Callable[[], dict[str, object]]) -> AnyRoute:
    return file_route(
        "openapi.json",
        lambda: File(JSON, msgspec.json.encode(make()), REVALIDATED),
        Sharing.ALL,
    )
