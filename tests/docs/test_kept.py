"""The operator's guide says how long things stay, and by which setting."""

import re

from documents import document
from portico.core.audit import KEPT_SECONDS
from portico.core.sessions import DEVICE_SECONDS
from portico.core.times import DAY
from portico.features.mail.sending import KEPT as KEPT_MAILS
from portico.features.operations.requests import DAYS, FAILED_DAYS, HOURS
from portico.features.people.rules import KEPT as KEPT_INVITATIONS
from portico.resource.uploads import KEPT as KEPT_UPLOADS
from portico.settings import SETTINGS

ROWS = {
    what: (how_long, setting)
    for what, how_long, setting in document("docs/operations/data.md").rows("kept")
}


def numbers(what: str) -> list[int]:
    (how_long,) = [long for row, (long, _) in ROWS.items() if row.startswith(what)]
    return [int(number) for number in re.findall(r"\d+", how_long)]


def test_the_times_are_those_that_hold() -> None:
    assert numbers("Answers kept") == [KEPT_SECONDS // 3600]
    assert numbers("Addresses and devices") == [DEVICE_SECONDS // 86_400]
    assert numbers("Mails") == [KEPT_MAILS // DAY]
    assert numbers("Counts of requests") == [HOURS.units, DAYS.units]
    assert numbers("Failed requests") == [FAILED_DAYS]
    assert numbers("Invitations") == [KEPT_INVITATIONS // DAY]
    assert numbers("Files of products") == [KEPT_UPLOADS // DAY]


def test_every_setting_is_there_and_its_default_is_the_time_that_is_told() -> None:
    defaults = {setting.name: setting.default for setting in SETTINGS}
    named = {what: re.findall(r"\w+", settings) for what, (_, settings) in ROWS.items()}
    assert {name for names in named.values() for name in names} == {
        "events_days",
        "audit_days",
        "audit_archive",
        "refresh_family_days",
    }
    for what, names in named.items():
        for name in names:
            default = defaults[name]
            assert numbers(what) == ([] if default is None else [int(default)])
