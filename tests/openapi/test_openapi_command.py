"""`portico openapi`."""

import json
from pathlib import Path

from operating import Installation


def test_openapi_command_prints_a_document_and_prepares_nothing(
    tmp_path: Path,
) -> None:
    installation = Installation(tmp_path)
    for more, place in (((), "v1"), (("--auth", "--sandbox"), "sandbox/auth")):
        text = installation.run("openapi", *more).stdout
        assert text.startswith('{\n  "openapi": "3.1.0",\n')
        made = json.loads(text)
        assert made["servers"] == [{"url": f"https://localhost:{installation.port}/{place}"}]
        assert ("/token" in made["paths"]) == ("--auth" in more)
        assert ("/users" in made["paths"]) == ("--auth" not in more)
    assert not installation.data.exists()
