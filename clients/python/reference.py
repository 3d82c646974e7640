# ruff: noqa: INP001 - a script, run by its path
"""Writes docs/reference.md from the docstrings of the library.

python reference.py
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "src" / "portico_client"
TARGET = HERE / "docs" / "reference.md"
LINE = 90

CHAPTERS = {
    "Calling the API": (
        "client",
        [
            *("Client", "Products", "Users", "ApiKeys", "Listing"),
            *("Events", "EventListing", "Webhooks"),
        ],
    ),
    "Events as they happen": ("streams", ["EventStream"]),
    "Ways to sign in": ("credentials", ["Login", "SessionLogin", "OAuthTokens"]),
    "Signing users in by OAuth": ("apps", ["OAuthApp"]),
    "An authorization under way": ("oauth", ["Authorization"]),
    "Verifying deliveries of webhooks": ("webhooks", ["verify_webhook"]),
    "Verifying tokens": ("verifiers", ["TokenVerifier"]),
    "What a token says": ("claims", ["Claims"]),
    "Options": ("drivers", ["Options"]),
    "What is sent": (
        "inputs",
        [
            *("ProductFilters", "NewProduct", "ProductChanges"),
            *("UserFilters", "NewUser", "UserChanges", "PreferencesChanges"),
            *("ApiKeyFilters", "NewApiKey"),
            *("StreamFilters", "EventFilters", "NewWebhook", "WebhookChanges", "DeliveryFilters"),
        ],
    ),
    "What is answered": (
        "models",
        [
            *("Product", "ProductItem", "Image", "User", "UserItem", "CreatedUser", "Preferences"),
            *("ApiKey", "ApiKeyWithSecret"),
            *("RotatedKey", "PreviousKey", "Page", "Pagination"),
            *("Event", "EventPage", "EventPagination", "Webhook", "WebhookWithSecret", "Delivery"),
        ],
    ),
}
MODULES = {
    "Addresses and the environment": "connection",
    "Retries": "retries",
    "Streams": "following",
    "Errors": "errors",
}

INTRODUCTION = """\
# Reference

Made by `reference.py` from the docstrings; do not edit it by hand.

Everything is imported from `portico_client`. `AsyncClient`, `AsyncOAuthApp` and
`AsyncTokenVerifier` have the calls of `Client`, `OAuthApp` and `TokenVerifier`: await them, and
iterate with `async for`. What they give is an `AsyncListing`, `AsyncEventListing` or
`AsyncEventStream` where it is shown without `Async` here.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_chapters(), *_modules()])


def _chapters() -> Iterator[str]:
    for title, (module, names) in CHAPTERS.items():
        yield f"## {title}\n"
        body = _tree(module).body
        classes = {one.name: one for one in body if isinstance(one, ast.ClassDef)}
        functions = {one.name: one for one in body if isinstance(one, ast.FunctionDef)}
        for name in names:
            if name in functions:
                yield f"### {name}\n\n{_call(name, functions[name])}"
            else:
                yield from _class(classes[name], classes)


def _modules() -> Iterator[str]:
    for title, module in MODULES.items():
        tree = _tree(module)
        yield f"## {title}\n\n{_blocks(_doc(tree))}\n"
        if module == "errors":
            for one in tree.body:
                if isinstance(one, ast.ClassDef):
                    yield f"**`{one.name}`**: {_doc(one)}\n"


def _class(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    bases = [classes[name] for base in node.bases if (name := ast.unparse(base)) in classes]
    shown = "".join(f"({base.name})" for base in bases if not base.name.startswith("_"))
    yield f"### {node.name}{shown}\n\n{_doc(node)}\n"
    hidden = [one for base in bases if base.name.startswith("_") for one in base.body]
    fields = [one for one in [*hidden, *node.body] if isinstance(one, ast.AnnAssign)]
    if fields:
        yield _code("\n".join(map(_field, fields)))
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and _doc(one):
            yield _call(node.name, one)


def _call(owner: str, node: ast.FunctionDef) -> str:
    return _code(_signature(owner, node)) + f"\n{_doc(node)}\n"


def _field(node: ast.AnnAssign) -> str:
    shown = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    value = node.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        value = next((one.value for one in value.keywords if one.arg == "default"), None)
    return shown if value is None else f"{shown} = {ast.unparse(value)}"


def _signature(owner: str, node: ast.FunctionDef) -> str:
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    arguments = re.sub(r"(?<=[\w\]])=(?=\w)", " = ", arguments)
    given = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if node.name == "__init__":
        return _wrapped(owner, arguments, "")
    if node.name == "__iter__":
        return "for event in stream" if owner == "EventStream" else "for item in listing"
    if node.name == "__enter__":
        return "with client.events.stream() as stream"
    if any(ast.unparse(one) == "property" for one in node.decorator_list):
        return f"{node.name}{given.replace(' ->', ':')}"
    return _wrapped(node.name, arguments, given)


def _wrapped(name: str, arguments: str, given: str) -> str:
    if len(name + arguments + given) < LINE:
        return f"{name}({arguments}){given}"
    parts = "".join(f"    {part},\n" for part in re.split(r", (?![^\[]*\])", arguments))
    return f"{name}(\n{parts}){given}"


def _tree(module: str) -> ast.Module:
    return ast.parse((SOURCES / f"{module}.py").read_text("utf-8"))


def _doc(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def _blocks(doc: str) -> str:
    """A docstring whose indented parts become blocks of code."""
    parts = doc.split("\n\n")
    return "\n\n".join(
        _code(inspect.cleandoc(part)).rstrip() if part.startswith("    ") else part
        for part in parts
    )


def _code(text: str) -> str:
    plain = text.replace("'", '"')  # as the formatter has it
    return f"```python\n{plain}\n```\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(reference(), "utf-8")
