"""Settings: read once at the start, from portico.toml, then PORTICO_* variables, then flags."""

from portico.settings.composed import SETTINGS, Settings, markdown_table
from portico.settings.declaring import SettingError
from portico.settings.reading import CONFIG_VARIABLE, load

__all__ = ["CONFIG_VARIABLE", "SETTINGS", "SettingError", "Settings", "load", "markdown_table"]
