"""The checks of the mail server and the collector for `portico doctor`."""

from collections.abc import AsyncIterator, Callable, Iterator
from pkgutil import resolve_name

from portico.cli.findings import Finding, notice, ok, problem
from portico.cli.output import INSTALL_OTEL
from portico.cli.server_checks import ANSWER_SECONDS
from portico.mail.protocol import Undelivered
from portico.mail.smtp import SmtpOutlet
from portico.settings import SettingError, Settings
from portico.settings.values import redacted


async def mail(settings: Settings) -> AsyncIterator[Finding]:
    """Where mail goes, and whether the mail server accepts it."""
    if settings.smtp_url is None or settings.mail_from is None:
        message = f"no mail server is set: mails are written to {settings.data / 'log'}"
        yield notice("mail", message, "set PORTICO_SMTP_URL and PORTICO_MAIL_FROM to send them")
        return
    place = redacted(settings.smtp_url)
    try:
        outlet = SmtpOutlet(
            settings.smtp_url, settings.mail_from, settings.site_name, seconds=ANSWER_SECONDS
        )
        await outlet.check()
    except Undelivered as error:
        advice = "correct PORTICO_SMTP_URL, or check that it runs and accepts this machine"
        yield problem("mail", f"{place} does not accept mail: {error.reason}", advice)
        return
    yield ok("mail", f"{place} answers")


def collector(settings: Settings) -> Iterator[Finding]:
    """Whether the OpenTelemetry collector accepts an export, which is empty."""
    check, endpoint = "collector", settings.otlp_endpoint
    if endpoint is None:
        return
    advice = "correct PORTICO_OTLP_ENDPOINT or the OTEL_ variables, or check that it runs"
    try:
        refusal: Callable[[str, float], str] = resolve_name("portico.telemetry.exporting:refusal")
        reason = refusal(endpoint, ANSWER_SECONDS)
    except ModuleNotFoundError:
        yield problem(check, "OpenTelemetry is not installed", INSTALL_OTEL)
    except (SettingError, ValueError, RuntimeError) as error:  # the SDK's, about its variables
        yield problem(check, str(error), advice)
    else:
        message = f"{endpoint} does not accept exports: {reason}"
        yield problem(check, message, advice) if reason else ok(check, f"{endpoint} answers")
