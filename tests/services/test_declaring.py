"""What `portico.toml` may declare of services, and that every fault is one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from declared_services import DECLARED
from portico.core.errors import BrokenRule, PermissionDenied, Unreadable
from portico.core.plans import UNLIMITED, Plan
from portico.core.scopes import PERMISSIONS, READ_SCOPES, ROLE_SCOPES, ROLES, SCOPE_WORDS, SCOPES
from portico.core.services import Rule, Service, Services, check_scopes, declare, path_of
from portico.settings import SettingError, Settings, load


@pytest.fixture(autouse=True)
def _built_in() -> Iterator[None]:
    PERMISSIONS.only_built_in()
    yield
    PERMISSIONS.only_built_in()


def read(cwd: Path, text: str) -> Settings:
    (cwd / "portico.toml").write_text(text)
    return load({}, {}, cwd)


def test_services_scopes_roles_limits_and_months_are_read(tmp_path: Path) -> None:
    settings = read(tmp_path, DECLARED)
    declared = settings.declared
    invoices, mail = declared.services["invoices"], declared.services["mail"]
    assert (
        invoices.audience_at(settings.base_url),
        mail.audience_at(settings.base_url),
    ) == (f"{settings.base_url}/invoices", "urn:mail")
    assert (invoices.path, invoices.timeout_seconds, invoices.max_body) == (
        "/invoices", 30, 100 * 2**20
    )  # fmt: skip
    assert [rule.cost for rule in invoices.rules] == [1, 0, 1, 1, 7]
    assert declared.limits == {"heavy": Plan("heavy", 2, UNLIMITED)}
    assert settings.plans["monthly"].per_month == 20
    declare(PERMISSIONS, declared)
    check_scopes(PERMISSIONS, declared)
    assert SCOPES[-5:] == ["read:invoices", "write:invoices", "send:mail", "verify", "admin"]
    assert SCOPE_WORDS["read:invoices"] == "See invoices"
    assert "read:invoices" in READ_SCOPES
    assert ROLES == ["admin", "editor", "viewer", "support"]
    assert ROLE_SCOPES["support"] == {"read:users", "read:invoices"}
    assert {"read:invoices", "write:invoices", "send:mail", "verify"} <= ROLE_SCOPES["admin"]
    assert "verify" not in ROLE_SCOPES["editor"]


def test_service_may_be_called_like_the_beginning_of_an_address_of_ours(tmp_path: Path) -> None:
    assert read(tmp_path, "[services.mcp-tools]").declared.services.keys() == {"mcp-tools"}


def test_without_tables_nothing_is_declared(tmp_path: Path) -> None:
    assert read(tmp_path, "").declared == Services()


SERVICE = '[services.a]\npath = "/a"\nupstream = "http://h:1"\n'
RULE = "[services.a]\n[[services.a.rules]]\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("services = 1", "services must be tables"),
        ('[services."A B"]', "services.A B must be named"),
        ("[services.a]\naudienc = 1", "did you mean audience?"),
        ("[services.a]\naudience = 'invoices'", "services.a.audience must be a URI"),
        ("[services.a]\naudience = 'https://a.test/#x'", "services.a.audience must be a URI"),
        ("[services.a]\naudience = 'https://localhost:8443/v1'", "audience must differ from"),
        ("[services.mcp]", "audience must differ from https://localhost:8443/v1/mcp"),
        ("[services.a]\naudience = 'urn:x'\n[services.b]\naudience = 'urn:x'", "different aud"),
        (SERVICE + '[services.b]\naudience = "https://localhost:8443/v1/a"', "different aud"),
        (
            SERVICE.replace("s.a]", "s.b]") + "[services.a]",
            "https://localhost:8443/v1/a is of both",
        ),
        ("[services.a]\naudience = 'https://localhost:8443/sandbox/v1/b'\n[services.b]", "of both"),
        (SERVICE + '[services.b]\npath = "/a/b"\nupstream = "http://h:2"', "must not lie within"),
        (SERVICE.replace('"/a"', '"/a/"'), "services.a.path must be a path"),
        (SERVICE.replace('"/a"', '"/a/../b"'), "services.a.path must be a path"),
        ('[services.a]\npath = "/a"', "services.a needs both path and upstream"),
        ('[services.a]\nupstream = "http://h:1"', "services.a needs both path and upstream"),
        ('[services.a]\nsandbox_upstream = "http://h:1"', "sandbox_upstream needs path"),
        (SERVICE + 'sandbox_upstream = "http://h:1"', "must differ from upstream"),
        (SERVICE.replace("http:", "ftp:"), "services.a.upstream must be http://"),
        (SERVICE.replace("//h", "//u@h"), "services.a.upstream must be http://"),
        (SERVICE.replace("h:1", "h:1/?q"), "services.a.upstream must be http://"),
        (SERVICE.replace("h:1", "h:99999"), "services.a.upstream must be http://"),
        (SERVICE.replace("h:1", "h:1/.."), "services.a.upstream must be http://"),
        (SERVICE + "timeout_seconds = 0", "services.a.timeout_seconds must be a whole number"),
        (SERVICE + "max_body = true", "services.a.max_body must be a whole number"),
        ('[services.a.scopes]\n"Read:x" = {}', "must be verb:noun"),
        ('[services.a.scopes]\n"read:x" = {roles = ["boss"]}', "'boss' is no role"),
        ('[services.a.scopes]\n"read:x" = {about = 1}', "about must be text"),
        ('[services.a.scopes]\n"read:x" = 1', "must be a table"),
        (RULE + 'path = "a"\nscope = "any"', "services.a.rules 1: path must be like"),
        (RULE + 'path = "/**/a"\nscope = "any"', "services.a.rules 1: path must be like"),
        (RULE + 'path = "/%2e"\nscope = "any"', "services.a.rules 1: path must be like"),
        (RULE + 'path = "/a//b"\nscope = "any"', "services.a.rules 1: path must be like"),
        (RULE + 'path = "/a/.."\nscope = "any"', "services.a.rules 1: path must be like"),
        (RULE + 'path = "/"', "services.a.rules 1 needs a scope"),
        (RULE + 'path = "/"\nscope = "any"\nmethods = ["get"]', "must be a method such as GET"),
        (RULE + 'path = "/"\nscope = "any"\nlimit = "x"', "limit 'x' is not in [limits]"),
        (RULE + 'path = "/"\nscope = "any"\nlimit = ["x"]', "limit ['x'] is not in [limits]"),
        (RULE + 'path = "/"\nscope = "any"\ncost = 1001', "cost must be a whole number"),
        (
            RULE + 'path = "/"\nscope = "public"\nlimit = "x"\n[limits.x]\nper_day = 1',
            "a limit counts accounts",
        ),
        ("[limits.x]", "limits.x needs per_minute, per_day or per_month"),
        ("[limits.x]\nper_hour = 1", "'per_hour' is not a limit of limits.x"),
        ("[limits.x]\nper_day = 0", "limits.x.per_day must be a whole number"),
        ("[roles.viewer]\nscopes = []", "roles.viewer is built in"),
        ("[roles.boss]\nscopes = ['admin']", "only the role admin has admin"),
        ("[roles.boss]\nscopes = ['verify']", "only the role admin has verify"),
        ("[roles.boss]\nscopes = 'read:users'", "roles.boss.scopes must be a list"),
        ("[plans.free]\nper_month = 0", "plans.free.per_month must be a whole number"),
    ],
)
def test_a_fault_is_refused_in_one_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(SettingError) as caught:
        read(tmp_path, text)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[services.a.scopes]\n"read:users" = {}', "read:users exists already"),
        ('[services.a.scopes]\n"read:x" = {}\n[services.b.scopes]\n"read:x" = {}', "exists alr"),
        (SERVICE.replace('"/a"', '"/users"'), "services.a.path: /users is Portico's own"),
        (SERVICE.replace('"/a"', '"/docs/a"'), "services.a.path: /docs/a is Portico's own"),
        ("[roles.boss]\nscopes = ['read:moon']", "there is no scope read:moon"),
        (RULE + 'path = "/"\nscope = "read:moon"', "there is no scope read:moon"),
    ],
)
def test_a_scope_is_declared_once_and_before_it_is_named(
    tmp_path: Path, text: str, fault: str
) -> None:
    declared = read(tmp_path, text).declared

    def start() -> None:
        declare(PERMISSIONS, declared)
        check_scopes(PERMISSIONS, declared)

    with pytest.raises(BrokenRule, match=fault):
        start()


@pytest.mark.parametrize(
    ("pattern", "paths", "others"),
    [
        ("/", ["/", "//"], ["/a"]),
        ("/a", ["/a", "/%61", "//a"], ["/", "/a/", "/A", "/a%20", "/b"]),
        ("/a/*", ["/a/b", "/a/%25"], ["/a", "/a/", "/a/b/c"]),
        ("/a/*/c", ["/a/b/c", "//a///b//c"], ["/a/b", "/a//c"]),
        ("/a/**", ["/a", "/a/", "/a/b", "/a/b/c"], ["/", "/ab"]),
        ("/**", ["/", "/a", "//", "/a//b"], []),
    ],
)
def test_a_pattern_matches_whole_decoded_segments(
    pattern: str, paths: list[str], others: list[str]
) -> None:
    service = Service(name="a", audience="urn:a", rules=(Rule(path=pattern, scope="any"),))
    assert [service.rule("GET", path).scope for path in paths] == ["any"] * len(paths)
    for path in others:
        with pytest.raises(PermissionDenied):
            service.rule("GET", path)


ANY = Service(name="a", audience="urn:a", rules=(Rule(path="/**", scope="any"),))


def test_the_first_rule_that_matches_decides() -> None:
    rules = (
        Rule(methods=frozenset({"GET"}), path="/admin/**", scope="admin"),
        Rule(methods=frozenset({"GET"}), path="/**", scope="public"),
    )
    service = Service(name="a", audience="urn:a", rules=rules)
    for path in ("/adm%69n/x", "//admin/x", "/admin//x", "///admin"):
        assert service.rule("GET", path).scope == "admin", path
    assert service.rule("GET", "/other").scope == "public"
    with pytest.raises(PermissionDenied):
        service.rule("POST", "/other")


@pytest.mark.parametrize(
    "target",
    [
        *("", "a", "?a", "http://h/", "*"),
        *("/.", "/..", "/a/../b", "/a/.", "/%2e%2E/b", "/.%2e", "/a/%2e/b"),
        *("/..;/a", "/a/.;x=1/b", "/%2e%2e%3b/a"),
        *("/a%2fb", "/a%2Fb", "/a%5cb", "/a\\b", "/%00", "/%zz", "/%"),
        *("/a b", "/é", "/a#b", "/a|b", '/"', "/<", "/a\tb", "/a\r\n", "/[", "/?a b", "/?#"),
    ],
)
def test_a_target_that_servers_read_differently_is_refused(target: str) -> None:
    with pytest.raises(Unreadable):
        ANY.rule("GET", path_of(target))


@pytest.mark.parametrize("target", ["/", "//", "/a", "/...", "/.a", "/a..", "/%25", "/a;b=1?c=/?d"])
def test_any_other_target_is_taken_as_it_is(target: str) -> None:
    assert ANY.rule("GET", path_of(target)).scope == "any"
