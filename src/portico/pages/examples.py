"""Examples of calling an operation, with curl and with the clients; those are in `snippets`."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from shlex import quote
from textwrap import dedent, indent
from typing import Any, NamedTuple
from urllib.parse import urljoin

from portico.http.messages import FORM
from portico.http.sse import EVENT_STREAM
from portico.services.addresses import Addresses

Json = Mapping[str, Any]

_SNIPPETS = Path(__file__).parent / "snippets"
_PYTHON = re.compile(r"^def (\w+)\((.*)\) -> None:\n((?:    .*\n)+)", re.MULTILINE)
_TYPESCRIPT = re.compile(r"^export async function (\w+)\((.*)\) \{\n((?:  .*\n)+)\}", re.MULTILINE)
_PYTHON_IMPORT = re.compile(r"^(from \w+ import )(.+)()$", re.MULTILINE)
_TYPESCRIPT_IMPORT = re.compile(r"^(import \{ )(.+)( \} from .+)$", re.MULTILINE)


class Example(NamedTuple):
    """An example in one language: `language` is its key on pages, `title` its name."""

    language: str
    title: str
    text: str


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


def examples(
    address: str, method: str, operation: Json, document: Json, addresses: Addresses
) -> Iterator[Example]:
    """The examples of an operation; those of a client only if it has the call."""
    yield Example("curl", "curl", _curl(address, method, operation, document, addresses))
    for language, title, program in (
        ("python", "Python", _python),
        ("typescript", "TypeScript", _typescript),
    ):
        if text := program(operation["operationId"], addresses):
            yield Example(language, title, text.rstrip())


def _curl(address: str, method: str, operation: Json, document: Json, addresses: Addresses) -> str:
    parts = [addresses.curl]
    if EVENT_STREAM in operation["responses"].get("200", {}).get("content", ()):
        parts.append("-N")
    if method != "GET":
        parts.append(f"-X {method}")
    if not addresses.authority:  # with a CA, its path fills the first line
        parts = [" ".join(parts)]
    security = operation.get("security", document["security"])
    if {} in security:
        pass  # the credentials are in the body
    elif any("bearer" in way for way in security):
        parts.append('-H "Authorization: Bearer $API_KEY"')
    elif any("oauth" in way for way in security):
        parts.append('-H "Authorization: Bearer $ACCESS_TOKEN"')
    elif {"cookie": []} in security:
        parts.append('-b "__Host-session=$SESSION"')
    content = operation.get("requestBody", {}).get("content", {})
    if FORM in content:
        example = content[FORM]["example"]
        parts += [f"-d {name}={_quoted(value)}" for name, value in example.items()]
    elif content:
        text = _indented(content["application/json"]["example"]).replace("\n", "\n  ")
        parts += ["-H 'Content-Type: application/json'", f"-d {_quoted(text)}"]
    return " \\\n  ".join([*parts, re.sub(r"\{\w+\}", "17", address)])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


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
