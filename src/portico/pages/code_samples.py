"""Samples of calling an operation with the clients, which are in `snippets`."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from shlex import quote
from textwrap import dedent, indent
from typing import Any, NamedTuple
from urllib.parse import urljoin

from portico.services.addresses import Addresses

Json = Mapping[str, Any]

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
