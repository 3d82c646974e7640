"""`portico openapi`."""

from pathlib import Path

from operating import Installation


def test_it_prints_both_documents_of_either_environment_without_preparing_anything(
    tmp_path: Path,
) -> None:
    installation = Installation(tmp_path)
    for more, place in (
        ((), "v1"),
        (("--sandbox",), "sandbox/v1"),
        (("--auth",), "auth"),
        (("--auth", "--sandbox"), "sandbox/auth"),
    ):
        made = installation.told("openapi", *more)
        assert made["openapi"] == "3.1.0"
        assert made["servers"] == [{"url": f"https://localhost:{installation.port}/{place}"}]
        assert ("/token" in made["paths"]) == ("--auth" in more)
        assert ("/users" in made["paths"]) == ("--auth" not in more)
    assert installation.run("openapi").stdout.startswith('{\n  "openapi": "3.1.0",\n')
    assert not installation.data.exists()
