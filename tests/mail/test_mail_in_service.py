"""Mail as an operator meets it: what doctor says of it, and a server that sends it."""

import asyncio
import json
import re
import signal
import sys
from typing import Any
from urllib.parse import urlencode

from mail.conftest import link
from mail_server import ELSEWHERE, SIGNED_IN, Authority, MailServer, serving
from operating import TIMEOUT_SECONDS, Answer, Installation, Service, read_answer

SENDER = "portico@example.org"
NEW = "Chang3dWord"
KEY = ["keys", "create", "--owner", "admin@example.com", "--name", "Told", "--type", "live"]

PATIENT = f"""
import sys
from portico.features.mail import sending
sending.CLOSE_SECONDS = {TIMEOUT_SECONDS}
from portico.cli.main import main
sys.exit(main())
"""
"""A command that waits for as long as a mail takes to be sent on a busy machine."""


async def examined(installation: Installation) -> dict[str, Any]:
    """What doctor finds of the mail."""
    done = await asyncio.to_thread(installation.run, "doctor", "--json")
    told = json.loads(done.stdout)
    (finding,) = (one for one in told["findings"] if one["check"] == "mail")
    assert done.returncode == (0 if finding["ok"] else 1)
    assert told["ok"] is finding["ok"]
    return dict(finding)


async def test_doctor_signs_in_to_the_mail_server_and_tells_no_password(
    installation: Installation, trusted: Authority
) -> None:
    async with serving(MailServer(), starttls=trusted.context, password=True) as server:
        at = f"{ELSEWHERE}:{server.port}"
        given = installation.having(smtp_url=f"smtp://{SIGNED_IN}{at}", mail_from=SENDER)
        finding = await examined(given)
        assert (server.passwords, server.received) == (1, [])
        refusing = installation.having(smtp_url=f"smtp://portico:hunter2@{at}", mail_from=SENDER)
        refused = await examined(refusing)
    assert (finding["ok"], finding["advice"]) == (True, ""), finding
    assert not refused["ok"]
    assert "535" in refused["message"]
    assert refused["advice"]
    assert "hunter2" not in str(refused)


async def test_mail_of_a_command_is_sent_by_the_running_server(
    installation: Installation,
) -> None:
    async with serving(MailServer()) as server:
        url = f"smtp://127.0.0.1:{server.port}"
        given = installation.having(smtp_url=url, mail_from=SENDER)
        with given.serving() as service:
            service.process.send_signal(signal.SIGSTOP)
            try:
                await asyncio.to_thread(given.told, *KEY)
                assert server.received == []
            finally:
                service.process.send_signal(signal.SIGCONT)
            await server.next()
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PATIENT, *KEY), cwd=given.directory, env=given.environment
        )
        assert await command.wait() == 0
        assert len(server.received) == 2, "no server is there"


async def test_forgotten_password_is_reset_by_mail(
    installation: Installation, trusted: Authority
) -> None:
    admin = str(installation.facts["admin"]["email"])
    async with serving(MailServer(), starttls=trusted.context, password=True) as server:
        url = f"smtp://{SIGNED_IN}{ELSEWHERE}:{server.port}"
        given = installation.having(smtp_url=url, mail_from=SENDER)
        with given.serving() as service:
            answers = [
                await asyncio.to_thread(send, service, "/dashboard/forgot", email=email)
                for email in ("nobody@example.com", admin)
            ]
            assert [answer.status for answer in answers] == [303, 303]
            assert neutral(answers[0]) == neutral(answers[1])
            received = await server.next()
            path = link(received.message).partition(f":{given.port}")[2]
            token = path.partition("?token=")[2]
            assert (await asyncio.to_thread(service.ask, path)).status == 200
            chosen = await asyncio.to_thread(
                send, service, "/dashboard/reset", token=token, password=NEW
            )
            assert chosen.status == 303, chosen.text
            body = {"email": admin, "password": NEW}
            signed_in = await asyncio.to_thread(
                service.ask, "/auth/login", method="POST", body=body
            )
            assert signed_in.status == 200
            await server.next()  # what a server has not begun to send is left to the next one
            await asyncio.to_thread(service.stop)
            assert token not in service.text
            assert token not in service.said
    told = [one.message["Subject"] for one in server.received[1:]]
    assert told == ["Your Portico account has a new password"]
    assert received.recipients == [admin]
    assert received.over_tls
    assert received.signed_in


def send(service: Service, path: str, **fields: str) -> Answer:
    """The answer to a form, sent as a browser does."""
    body = urlencode(fields).encode()
    origin = f"https://localhost:{service.installation.port}"
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost:{service.installation.port}\r\n"
        f"origin: {origin}\r\ncontent-type: application/x-www-form-urlencoded\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with service.connect() as connection:
        connection.sendall(head.encode() + body)
        return read_answer(connection, "POST")


def neutral(answer: Answer) -> tuple[int, dict[str, str], str]:
    """An answer without what differs from one request to the next."""
    varying = ("date", "x-request-id", "ratelimit-remaining", "x-ratelimit-remaining")
    headers = {name: value for name, value in answer.headers.items() if name not in varying}
    return answer.status, headers, re.sub(r"req_\w+", "req", answer.text)
