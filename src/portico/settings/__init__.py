"""Settings, read once at the start: from portico.toml, then PORTICO_* variables, then flags."""

from portico.settings.composed import SETTINGS, Settings, markdown_tables
from portico.settings.declaring import SettingError
from portico.settings.reading import CLIENTS_VARIABLES, CONFIG_VARIABLE, load, nothing_runs

__all__ = [
    "CLIENTS_VARIABLES",
    "CONFIG_VARIABLE",
    "SETTINGS",
    "SettingError",
    "Settings",
    "load",
    "markdown_tables",
    "nothing_runs",
]
