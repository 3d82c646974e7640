"""Letters go to a mail server: whole, over TLS, to a server that is who it says."""

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answering import answering
from mail_server import (
    ELSEWHERE,
    LETTER,
    SIGNED_IN,
    Authority,
    MailServer,
    Received,
    authority,
    serving,
)
from portico.outbound.mail import Letter, Undelivered, compose
from portico.outbound.smtp import SmtpOutlet

SENDER = "portico@example.org"


async def refusal(url: str, letter: Letter = LETTER, *, seconds: float = 10) -> Undelivered:
    """Why a letter was not taken."""
    with pytest.raises(Undelivered) as caught:
        await SmtpOutlet(url, SENDER, "Portico", seconds=seconds).send(letter)
    assert "example.com" not in caught.value.reason, "no address"
    assert "ttt" not in caught.value.reason, "no token"
    return caught.value


def arrived(server: MailServer) -> Received:
    """The one message that the server took."""
    assert len(server.received) == 1
    return server.received[0]


async def test_mail_is_sent_over_implicit_tls(trusted: Authority) -> None:
    async with serving(MailServer(), tls=trusted.context) as server:
        await SmtpOutlet(f"smtps://localhost:{server.port}", SENDER, "Portico").send(LETTER)
    sent = arrived(server)
    assert (sent.sender, sent.recipients) == (SENDER, ["ada@example.com"])
    message = sent.message
    assert message["From"] == "Portico <portico@example.org>"
    assert message["To"] == "ada@example.com"
    assert message["Subject"] == LETTER.subject
    assert message["Message-ID"] == "<8c7d@example.org>"
    assert message["Date"] == "Sun, 15 Mar 2026 12:00:00 +0000"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "multipart/alternative"
    plain, html = message.get_body(["plain"]), message.get_body(["html"])
    assert plain is not None
    assert html is not None
    assert plain.get_content() == LETTER.text
    assert html.get_content() == LETTER.html


async def test_remote_connection_is_upgraded_to_tls_before_login(
    trusted: Authority,
) -> None:
    async with serving(MailServer(), starttls=trusted.context, password=True) as server:
        await SmtpOutlet(f"smtp://{SIGNED_IN}{ELSEWHERE}:{server.port}", SENDER, "Portico").send(
            LETTER
        )
    assert arrived(server).over_tls
    assert arrived(server).signed_in


async def test_mail_server_without_starttls_gets_no_password_and_no_mail() -> None:
    async with serving(MailServer(), password=True) as server:
        refused = await refusal(f"smtp://{SIGNED_IN}{ELSEWHERE}:{server.port}")
    assert "STARTTLS" in refused.reason
    assert (server.passwords, server.received) == (0, [])


async def test_local_mail_server_needs_no_tls() -> None:
    async with serving(MailServer()) as server:
        await SmtpOutlet(f"smtp://127.0.0.1:{server.port}", SENDER, "Portico").send(LETTER)
    assert not arrived(server).over_tls


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_untrusted_mail_server_gets_nothing(
    trusted: Authority, tmp_path: Path, scheme: str
) -> None:
    stranger = authority(tmp_path / "stranger").context
    how: dict[str, ssl.SSLContext] = {"tls" if scheme == "smtps" else "starttls": stranger}
    async with serving(MailServer(), password=True, **how) as server:
        refused = await refusal(f"{scheme}://{SIGNED_IN}{ELSEWHERE}:{server.port}")
    assert "CERTIFICATE_VERIFY_FAILED" in refused.reason
    assert (server.passwords, server.received) == (0, [])
    assert trusted.certificate.exists()


async def test_mail_server_with_the_certificate_of_another_host_gets_nothing(
    trusted: Authority,
) -> None:
    async with serving(MailServer(), tls=trusted.context) as server:
        refused = await refusal(f"smtps://127.0.0.2:{server.port}")
    assert "CERTIFICATE_VERIFY_FAILED" in refused.reason
    assert server.received == []


async def test_refused_mail_password_is_reported_without_it(trusted: Authority) -> None:
    async with serving(MailServer(), starttls=trusted.context, password=True) as server:
        refused = await refusal(f"smtp://portico:hunter2@{ELSEWHERE}:{server.port}")
    assert not refused.lasting
    assert "535" in refused.reason
    assert "hunter2" not in refused.reason
    assert server.received == []


@pytest.mark.parametrize(
    ("answer", "lasting", "told"),
    [
        ("450 4.2.0 <ada@example.com> is greylisted", False, "450 4.2.0"),
        ("550 5.1.1 <ada@example.com>: no such user", True, "550 5.1.1"),
        ("550 ada@example.com is unknown", True, "550"),
        ("550 5.1.1234 ada@example.com", True, "550"),
    ],
)
async def test_refusal_of_a_mail_server_is_reported_by_codes_alone(
    answer: str,
    lasting: bool,  # noqa: FBT001 - a column of the table
    told: str,
) -> None:
    async with serving(MailServer([answer])) as server:
        refused = await refusal(f"smtp://127.0.0.1:{server.port}")
    assert refused.lasting is lasting
    assert refused.reason == f"the mail server answered {told}"
    assert server.received == []


async def test_silent_mail_server_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused = await refusal(f"smtp://127.0.0.1:{silent.getsockname()[1]}", seconds=0.2)
    assert not refused.lasting
    assert "in time" in refused.reason


class Thorough(MailServer):
    """Looks a letter through for a while before it says that it has it."""

    async def handle_DATA(self, *about: Any) -> str:  # noqa: N802 - the library's name
        said = await super().handle_DATA(*about)
        await asyncio.sleep(0.6)
        return said


@pytest.mark.parametrize(("accepting", "waits"), [(600.0, True), (0.2, False)])
async def test_mail_server_may_take_longer_to_accept_a_mail_than_for_all_before(
    monkeypatch: pytest.MonkeyPatch, *, accepting: float, waits: bool
) -> None:
    monkeypatch.setattr("portico.outbound.smtp.ACCEPTING_SECONDS", accepting)
    async with serving(Thorough()) as server:
        url = f"smtp://127.0.0.1:{server.port}"
        if waits:
            await SmtpOutlet(url, SENDER, "Portico", seconds=0.4).send(LETTER)
        else:
            assert "in time" in (await refusal(url)).reason
    assert arrived(server).recipients == ["ada@example.com"]


async def test_accepted_mail_counts_as_sent_whatever_follows() -> None:
    class Rude(MailServer):
        async def handle_QUIT(self, server: object, _session: object, _envelope: object) -> str:  # noqa: N802 - the library's name
            server.transport.abort()  # type: ignore[attr-defined]
            return "221 Bye"

    async with serving(Rude()) as server:
        await SmtpOutlet(f"smtp://127.0.0.1:{server.port}", SENDER, "Portico").send(LETTER)
    assert arrived(server).recipients == ["ada@example.com"]


async def test_domain_beyond_ascii_is_sent_as_punycode() -> None:
    async with serving(MailServer()) as server:
        letter = msgspec.structs.replace(LETTER, to="ada@bücher.example")
        await SmtpOutlet(f"smtp://127.0.0.1:{server.port}", SENDER, "Portico").send(letter)
    assert arrived(server).recipients == ["ada@xn--bcher-kva.example"]
    assert arrived(server).message["To"] == "ada@xn--bcher-kva.example"


async def test_local_part_beyond_ascii_needs_smtputf8() -> None:
    letter = msgspec.structs.replace(LETTER, to="用户@bücher.example")
    async with serving(MailServer(), enable_SMTPUTF8=True) as server:
        await SmtpOutlet(f"smtp://127.0.0.1:{server.port}", SENDER, "Portico").send(letter)
    assert arrived(server).recipients == ["用户@xn--bcher-kva.example"]
    async with serving(MailServer()) as server:
        assert (await refusal(f"smtp://127.0.0.1:{server.port}", letter)).lasting
    assert server.received == []


UMLAUTS = msgspec.structs.replace(
    LETTER, subject="Schlüssel", text=f"Öffnen:\n\n{LETTER.text}", html="<p>Öffnen</p>\n"
)


@pytest.mark.parametrize("options", [{}, {"decode_data": True}], ids=["8BITMIME", "ASCII alone"])
async def test_text_beyond_ascii_arrives_whole_by_any_server(
    options: dict[str, Any],
) -> None:
    async with serving(MailServer(), **options) as server:
        await SmtpOutlet(f"smtp://127.0.0.1:{server.port}", SENDER, "Portico").send(UMLAUTS)
    message = arrived(server).message
    plain, html = message.get_body(["plain"]), message.get_body(["html"])
    assert plain is not None
    assert html is not None
    assert message["Subject"] == "Schlüssel"
    assert (plain.get_content(), html.get_content()) == (UMLAUTS.text, UMLAUTS.html)


async def test_check_of_a_mail_server_signs_in_and_sends_nothing(trusted: Authority) -> None:
    async with serving(MailServer(), starttls=trusted.context, password=True) as server:
        await SmtpOutlet(f"smtp://{SIGNED_IN}{ELSEWHERE}:{server.port}", SENDER, "Portico").check()
    assert (server.passwords, server.received) == (1, [])


HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version"),
    "Content-Type",
}


@given(to=st.text(), subject=st.text(), sender=st.sampled_from([SENDER, "a@b.c\r\nBcc: x@y.z"]))
def test_value_cannot_begin_another_header(to: str, subject: str, sender: str) -> None:
    letter = msgspec.structs.replace(LETTER, to=f"{to}@example.com", subject=subject)
    with suppress(Exception):  # refused in one way or another: then nothing is sent
        lines = compose(letter, sender, "Portico").as_bytes().partition(b"\n\n")[0].decode()
        names = re.findall(r"^([!-9;-~]+):", lines.replace("\r\n", "\n"), re.MULTILINE)
        assert sorted(names) == sorted(HEADERS), lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("HTTP/1.1 400 Bad Request", "the server does not speak SMTP"),
        ("554 5.3.2 no mail today", "the mail server answered 554 5.3.2"),
    ],
)
async def test_refusal_before_the_recipient_is_temporary(line: str, reason: str) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{line}\r\n".encode())

    async with answering(answer) as port:
        refused = await refusal(f"smtp://127.0.0.1:{port}")
    assert (refused.lasting, refused.reason) == (False, reason)
