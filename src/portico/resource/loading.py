"""Loads the files of kinds, and judges them: every fault at once, with its place and what to do."""

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from portico.core.errors import Invalid, Unreadable
from portico.core.resources import RESOURCES
from portico.core.words import ROLES
from portico.resource.compiled import CREATED, OWN, Kinds
from portico.resource.declared import Kind, Place, Record, take_declared
from portico.resource.fields import (
    NOTHING,
    Field,
    JsonField,
    ReferenceField,
    StatesField,
    TextField,
    described,
)
from portico.settings import SettingError
from portico.web.lists import ListQuery
from portico.web.reading import Faults

PACKAGE = "portico_kinds"
"""The package that the files are modules of, so that they can import what begins with `_`."""

MOST_KINDS = 50
MOST_FIELDS = 60
LONGEST_NAME = 40
LONGEST_INDEXED = 600
"""An index of PostgreSQL takes values of up to 2,700 bytes."""

BUILT_IN_TARGETS = ("products", "users")
"""What references can name besides the kinds of the files."""

_PATHS = frozenset(
    """docs openapi-json me batch users products api-keys sessions events webhooks account plans
    invitations clients audit usage verify check mcp services healthz readyz metrics well-known
    login refresh userinfo authorize token revoke introspect records kinds sandbox files search
    import export security password applications devices email forgot keys new-email once profile
    requests reset sign-in sign-out sign-up static verified""".split()  # noqa: SIM905 - reads better than forty literals
)
_NOUNS = frozenset(
    """user product api-key session event webhook account plan invitation client audit usage
    service delivery ping sandbox signing-key provider passkey factor error page pagination
    password record kind file import quota backup sandbox-reset products-imported
    rotated-key""".split()  # noqa: SIM905 - as above
)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_LIST = frozenset({*ListQuery.__struct_fields__, "sort", "order", "search", "format"})


class FileFault(NamedTuple):
    """What is wrong in a file, and where."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


class KindsError(SettingError):
    """The files of kinds cannot be used. The message has every fault, one a line."""

    def __init__(self, faults: Sequence[FileFault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


def load(directory: Path, roles: frozenset[str] = frozenset()) -> Kinds:
    """The kinds that the files of a directory declare. `roles` are those of the settings, besides
    Portico's own. Raises `KindsError`."""
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".py")
        content = [(path.name, path.read_bytes()) for path in paths]
    except OSError as error:
        raise KindsError(
            [FileFault(str(directory), 0, f"{error.strerror}: name a directory")]
        ) from None
    digest = sha256()
    for name, text in content:
        digest.update(f"{name} {len(text)} ".encode() + text)
    return _loaded(directory, digest.hexdigest(), roles)


@lru_cache(maxsize=4)
def _loaded(directory: Path, digest: str, roles: frozenset[str]) -> Kinds:
    kinds, faults = declared(directory)
    found = _faults(kinds, {*ROLES, *roles}, are_all=not faults)
    faults += [FileFault(*place, why) for place, why in found]
    if faults:
        raise KindsError(sorted(dict.fromkeys(faults)))
    loaded = Kinds(kinds, digest)
    if faults := [*_sample_faults(loaded)]:
        raise KindsError(faults)
    return loaded


def _sample_faults(kinds: Kinds) -> Iterator[FileFault]:
    for kind in kinds:
        file = str(Path(kind.kind.place.file).parent / (kind.kind.samples or ""))
        for number, line in kind.sample_lines:
            try:
                kind.sample(line)
            except (Unreadable, Invalid) as error:
                told = [f"{fault.field} {fault.message}" for fault in error.details]
                yield FileFault(file, number, "; ".join(told) or error.message)


def declared(directory: Path) -> tuple[list[Kind[Any]], list[FileFault]]:
    """The kinds of the files of a directory, and why some cannot be loaded."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    package = ModuleType(PACKAGE)
    package.__path__ = [str(directory)]
    sys.modules[PACKAGE] = package
    faults: list[FileFault] = []
    kinds: list[Kind[Any]] = []
    take_declared()
    for path in sorted(directory.glob("*.py")):
        if not path.name.startswith("_"):
            if fault := _execute(path):
                faults.append(fault)
            kinds += take_declared()
    return kinds, faults


def _execute(path: Path) -> FileFault | None:
    name = f"{PACKAGE}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.stem.isidentifier():
        return FileFault(str(path), 0, "is not named like a module: rename it, such as orders.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        return FileFault(
            error.filename or str(path), error.lineno or 0, f"is not Python: {error.msg}"
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a file of others raises
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).parent == path.parent
        ]
        line = frames[-1].lineno or 0 if frames else 0
        file = frames[-1].filename if frames else str(path)
        cause = f"{type(error).__name__}: {error}".replace("\n", " ")
        return FileFault(file, line, f"cannot be loaded: {cause}")
    return None


Faulty = Iterator[tuple[Place, str]]
"""Where something is wrong, and what."""


def _faults(kinds: Sequence[Kind[Any]], known_roles: Collection[str], *, are_all: bool) -> Faulty:
    """What is wrong with kinds; unless they `are_all`, others may be referred to as well."""
    if len(kinds) > MOST_KINDS:
        yield kinds[MOST_KINDS].place, f"is kind {MOST_KINDS + 1}: declare at most {MOST_KINDS}"
    known = {resource.path for resource in RESOURCES}
    own = _PATHS | _NOUNS | (known - {kind.many for kind in kinds})
    seen: dict[str, Place] = {}
    targets = {*BUILT_IN_TARGETS, *(kind.many for kind in kinds)} if are_all else None
    for kind in kinds:
        for name, what in ((kind.one, "one"), (kind.many, "many")):
            for message in _name_faults(name, own, seen):
                yield kind.place, f"{what}={name!r} {message}"
            seen.setdefault(name, kind.place)
        yield from _faults_of(kind, targets, known_roles)


def _name_faults(name: Any, own: Collection[str], seen: Mapping[str, Place]) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        yield (
            "must be lower-case letters, digits and -, beginning with a letter, at most"
            f" {LONGEST_NAME} characters"
        )
    elif name in own:
        yield "is Portico's own: choose another name"
    elif first := seen.get(name):
        yield f"is declared at {Path(first.file).name}:{first.line}: choose another name"


def _faults_of(kind: Kind[Any], targets: set[str] | None, known_roles: Collection[str]) -> Faulty:
    record, place = kind.record, kind.place
    if not (isinstance(record, type) and issubclass(record, Record)):
        yield place, "must be given a class that is a Record"
        return
    fields = record.__fields__
    for name in record.__unmade__:
        example = f"write {name}: … = text(1, 100), or the like"
        yield record.__place__, f"{name} has no maker: {example}"
    if not fields:
        yield record.__place__, "has no fields: declare one, such as name: str = text(1, 100)"
    if len(fields) > MOST_FIELDS:
        yield record.__place__, f"has {len(fields)} fields: declare at most {MOST_FIELDS}"
    if not any(field.whole for field in fields):
        yield record.__place__, "leaves every field out of lists: declare one without whole=False"
    for field in fields:
        for message in _field_faults(field, targets):
            yield Place(*field.place), f"{field.name} {message}"
    roles = ", ".join(sorted(known_roles))
    for given, what in ((kind.readers, "readers"), (kind.writers, "writers")):
        for role in given:
            if role not in known_roles:
                yield place, f"{what} name {role!r}, which is no role: {roles}"
    for message in _list_faults(kind, {field.name: field for field in fields}):
        yield place, message
    for rule in (*kind.rules, *kind.followers):
        if not inspect.iscoroutinefunction(rule):
            code = getattr(rule, "__code__", None)
            where = Place(code.co_filename, code.co_firstlineno) if code else place
            yield where, "is no coroutine: write async def"
    if kind.samples is not None and not (Path(place.file).parent / kind.samples).is_file():
        yield place, f"samples={kind.samples!r} is no file beside this one"


def _list_faults(kind: Kind[Any], by_name: dict[str, Field]) -> Iterator[str]:
    parameters: set[str] = set()
    for name in kind.filters:
        field = by_name.get(name)
        if field is None:
            yield f"filters name {name!r}, which is no field"
        elif not (field.equality or field.ranged):
            yield f"filters name {name!r}: {field.sort} has no filter"
        else:
            own = {f"min_{name}", f"max_{name}"} if field.ranged else {name}
            if own & (_LIST | parameters):
                yield f"the filter {name!r} is called like another parameter of the list"
            parameters |= own
            yield from _indexed_faults(field, "filters")
    for name in kind.sorts:
        if name == CREATED:
            continue
        field = by_name.get(name)
        if field is None:
            yield f"sorts name {name!r}, which is no field"
        elif not field.sortable:
            yield f"sorts name {name!r}: {field.sort} has no order"
        else:
            yield from _indexed_faults(field, "sorts")
    for names, what in ((kind.filters, "filters"), (kind.sorts, "sorts")):
        if len(set(names)) < len(names):
            yield f"{what} name a field twice"


def _indexed_faults(field: Field, what: str) -> Iterator[str]:
    if isinstance(field, TextField) and field.high > LONGEST_INDEXED:
        named = f"{what} name {field.name!r}: only text of at most {LONGEST_INDEXED} characters"
        yield f"{named} can be one of them"


def _field_faults(field: Field, targets: set[str] | None) -> Iterator[str]:
    if not _FIELD.fullmatch(field.name) or len(field.name) > LONGEST_NAME:
        yield f"must be named by lower-case letters, digits and _, at most {LONGEST_NAME} of them"
    if field.name in (*OWN, "replace"):
        yield "is the name of something that every record has: rename it"
    try:
        own = field.faults()
    except TypeError as error:
        own = [f"has an option of another type: {error}"]
    yield from own
    if field.search and not isinstance(field, TextField):
        yield "cannot be searched: only text can"
    if field.unique and isinstance(field, JsonField):
        yield "cannot be unique: only single values can"
    if isinstance(field, ReferenceField) and targets and field.to not in targets:
        yield f"refers to {field.to!r}, which is no kind: {', '.join(sorted(targets))}"
    if field.was is not None and not _FIELD.fullmatch(field.was):
        yield "was= must be the former name of the field"
    if field.optional and isinstance(field, StatesField):
        yield "is always in a state: it cannot be optional"
    if own:
        return
    if isinstance(field, TextField) and field.unique and field.high > LONGEST_INDEXED:
        yield f"can be unique only with at most {LONGEST_INDEXED} characters"
    for value, what in ((field.default, "default"), (field.example, "example")):
        if value is NOTHING or (value is None and field.optional):
            continue
        faults = Faults()
        described(field).read(field.sent(value), field.name, faults)
        for fault in (*faults.unreadable, *faults.broken)[:1]:
            where = fault.field.removeprefix(field.name)
            cause = f"it{where and f' ({where[1:]})'} {fault.message}"
            yield f"has a {what} that is not allowed: {cause}"
