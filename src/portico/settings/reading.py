"""Reading the settings: which source wins, and the error for an impossible one.

Whether a store responds or a certificate matches its key is not checked here.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from portico.core.errors import BrokenRule
from portico.settings.composed import SETTINGS, Settings, derived_addresses
from portico.settings.declaring import Setting, SettingError
from portico.settings.tables import TABLES, plans, providers, services
from portico.settings.values import redacted, suggestion

CONFIG_VARIABLE = "PORTICO_CONFIG"
CLIENTS_VARIABLES = ("PORTICO_API_KEY", "PORTICO_CA")
"""The variables of the clients, which are often set in the same shell and are ignored here."""

_PASSWORD = re.compile(r"://[^/@]*:[^/@]*@|[?&]password=")

_OF_A_SERVICE = re.compile(
    r"\w+_(SERVICE_(HOST|PORT)(_\w+)?=|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?=|PORT=(tcp|udp|sctp)://)"
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


class _Given(NamedTuple):
    setting: Setting
    value: object
    source: str


def nothing_runs(_data: Path) -> Mapping[str, str | int]:
    """The default for `running`: the settings of no server."""
    return {}


def load(
    flags: Mapping[str, str | int | None],
    environ: Mapping[str, str],
    cwd: Path,
    running: Callable[[Path], Mapping[str, str | int]] = nothing_runs,
) -> Settings:
    """Reads the settings from portico.toml, then `environ`, then `flags`; the later one wins.

    `flags` are named like the settings; None is a flag that was not given. Relative paths start at
    `cwd`. A setting without a source is taken from `running`, which returns those of the server
    that uses the data directory, else it has its default. Raises `SettingError` at the first
    unknown or impossible setting, even if another source would win.
    """
    file, document = _document(environ, cwd)
    try:
        tables: dict[str, Any] = {
            "plans": plans(document.pop("plans", {})),
            "providers": providers(document.pop("sign_in", {})),
        }
        declared = {name: document.pop(name, {}) for name in TABLES}
    except BrokenRule as rule:
        raise SettingError(f"{rule} (in {file})") from None
    sources: dict[str, str] = {}
    values: dict[str, Any] = {
        setting.name: None
        if setting.default is None
        else _parsed(_Given(setting, setting.default, "its default"), cwd)
        for setting in SETTINGS
    }
    in_file = [*_from_file(document, file)]
    for given in (*in_file, *_from_environment(environ), *_from_flags(flags)):
        values[given.setting.name] = _parsed(given, cwd)
        sources[given.setting.name] = given.source
    for name, value in running(values["data"]).items():
        if name not in sources:
            sources[name] = "the running server"
            values[name] = _parsed(_Given(_BY_NAME[name], value, sources[name]), cwd)
    addresses = derived_addresses(values)
    try:
        tables["declared"] = services(declared, addresses, file.parent)
    except BrokenRule as rule:
        raise SettingError(f"{rule} (in {file})") from None
    if values["kinds"] is None:
        values["kinds"] = usual if (usual := file.parent / "kinds").is_dir() else None
    is_secret = bool(tables["providers"]) or any(map(_holds_a_secret, in_file))
    secrets_file = file if is_secret else None
    settings = Settings(**(values | addresses | tables), secrets_file=secrets_file)
    settings.check(sources)
    return settings


def _document(environ: Mapping[str, str], cwd: Path) -> tuple[Path, dict[str, object]]:
    file = cwd / environ.get(CONFIG_VARIABLE, "portico.toml")
    named = f"{file} (from {CONFIG_VARIABLE})" if CONFIG_VARIABLE in environ else str(file)
    try:
        return file, tomllib.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError) and not file.is_symlink()
        if is_missing and CONFIG_VARIABLE not in environ:
            return file, {}
        raise SettingError(f"{named} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(f"{named} is not UTF-8: save it as UTF-8") from None
    except ValueError as error:
        raise SettingError(f"{named} is not TOML: {error}") from None
    except RecursionError:
        raise SettingError(f"{named} is not TOML: it is nested too deeply") from None


def _from_file(document: Mapping[str, object], file: Path) -> Iterator[_Given]:
    for name, value in document.items():
        setting = _BY_NAME.get(name)
        if setting is None:
            raise SettingError(f"{name!r} in {file} is not a setting{suggestion(name, _BY_NAME)}")
        yield _Given(setting, value, str(file))


def _holds_a_secret(given: _Given) -> bool:
    """Whether a value contains a secret; a URL only if it has a password."""
    text = str(given.value)
    return given.setting.secret and ("://" not in text or bool(_PASSWORD.search(text)))


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Given]:
    known = {*_BY_VARIABLE, CONFIG_VARIABLE, *CLIENTS_VARIABLES}
    for variable in sorted(environ):
        if not variable.startswith("PORTICO_") or variable in known:
            continue
        if _OF_A_SERVICE.match(f"{variable}={environ[variable]}"):
            raise SettingError(
                f"{variable} is not a setting; Kubernetes makes it for a Service whose name begins"
                " with portico: set enableServiceLinks: false for the pod"
            )
        raise SettingError(f"{variable} is not a setting{suggestion(variable, known, 'PORTICO_')}")
    for variable, setting in _BY_VARIABLE.items():
        if variable in environ:
            yield _Given(setting, environ[variable], variable)


def _from_flags(flags: Mapping[str, str | int | None]) -> Iterator[_Given]:
    for name, value in flags.items():
        if value is not None:
            yield _Given(_BY_NAME[name], value, _BY_NAME[name].flag)


def _parsed(given: _Given, cwd: Path) -> object:
    setting, value, source = given
    try:
        parsed = setting.read(value)
    except BrokenRule as rule:
        shown = "" if setting.secret else f", not {redacted(str(value))!r}"
        raise SettingError(f"{setting.name} (from {source}) {rule}{shown}") from None
    return cwd / parsed if isinstance(parsed, Path) else parsed
