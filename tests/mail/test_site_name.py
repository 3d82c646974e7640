"""Mails call an installation by its own name, whatever is in it."""

import pytest

from driving import Api
from mail.conftest import Post
from portico.core.audit import OPERATOR
from portico.features.people.accounts import suspend

pytestmark = pytest.mark.one_engine

NAME = '{Söhne} "&" <Acme>'


@pytest.fixture
def environ() -> dict[str, str]:
    return {"PORTICO_SITE_NAME": NAME}


async def test_site_name_is_sender_subject_and_footer_of_mails(api: Api, post: Post) -> None:
    await suspend(api.live, (await api.account(language="de")).id, OPERATOR)
    (message,) = await post.new()
    assert message["Subject"] == f"Ihr Konto bei {NAME} wurde gesperrt"
    shown = message["From"].addresses[0].display_name
    assert shown.encode(errors="surrogateescape").decode() == NAME  # raw UTF-8 in a file
    plain, html = message.get_body(["plain"]), message.get_body(["html"])
    assert plain is not None
    assert html is not None
    assert plain.get_content().rstrip().endswith(f"\n\n{NAME}")
    assert "<p>{Söhne} &quot;&amp;&quot; &lt;Acme&gt;</p>" in html.get_content()
