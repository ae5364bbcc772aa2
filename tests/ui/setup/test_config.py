"""`teamwright config` as a person types it."""

import json

import jsonschema
import pytest

from tests.session.compatibility.folder import put
from tests.ui.program import Program, error_of


@pytest.fixture
def program(tmp_path, repo, own_home):
    return Program(repo, tmp_path / "home")


@pytest.mark.slow
@pytest.mark.promise("K7")
def test_what_is_set_is_listed_under_its_file_and_got_and_unset(program, repo):
    assert "No file sets anything here." in program.run("config", "list").stdout
    done = program.run("config", "set", "limits.members", "3")
    file = f"{program.home}/settings.json"
    said = f"limits.members was changed in {file}\nused here: limits.members = 3 ({file})\n"
    assert (done.returncode, done.stdout) == (0, said)
    assert "was so already" in program.run("config", "set", "limits.members", "3").stdout
    program.run("config", "set", "permissions.deny", "WebFetch")
    program.run("config", "set", "--project", "permissions.deny", "Read(.env)")
    lines = program.run("config", "list").stdout.splitlines()
    assert lines == [
        f"{program.home}/settings.json",
        "  permissions.deny                WebFetch",
        "  limits.members                  3",
        f"{repo}/.teamwright/settings.json",
        "  permissions.deny                Read(.env)",
    ]
    assert program.run("config", "get", "permissions.deny").stdout == "WebFetch\nRead(.env)\n"
    assert program.run("config", "get", "limits.members").stdout == "3\n"
    program.run("config", "unset", "limits.members")
    assert program.run("config", "get", "limits.members").stdout == "8\n", "the default"
    assert "was not set there" in program.run("config", "unset", "limits.members").stdout
    assert program.run("config", "get", "model").stdout == ""


@pytest.mark.promise("K7")
@pytest.mark.slow
def test_the_checkouts_file_stays_out_of_git_without_a_gitignore(program, repo):
    done = program.run("config", "set", "--local", "model", "haiku")
    assert "once this repository is trusted" in done.stdout
    assert "/.teamwright/settings.local.json" in (repo / ".git/info/exclude").read_text()
    assert not (repo / ".gitignore").exists()
    assert not (repo / ".claude").exists()
    found = json.loads(program.run("config", "list", "--json").stdout)
    assert [(one["key"], one["value"], one["state"]) for one in found] == [("model", "haiku", "needs trust")]
    assert "1 more value has no effect" in program.run("config", "list").stdout


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("set", "limit.members", "3"), "did you mean limits.members?"),
        (("get", "modle"), "did you mean model?"),
        (("unset", "modle"), "did you mean model?"),
        (("set", "limits.members", "many"), "a whole number"),
        (("set", "--project", "providers", "{}"), "your own settings only"),
        (("set", "--project", "--local", "model", "x"), "exclude each other"),
    ],
)
@pytest.mark.slow_after(1)
def test_what_cannot_be_is_bad_usage_and_nothing_is_written(program, repo, args, word):
    done = program.run("config", *args)
    assert (done.returncode, error_of(done)[0]) == (2, "usage")
    assert word in done.stderr
    assert not (program.home / "settings.json").exists()
    assert not (repo / ".teamwright").exists()


@pytest.mark.promise("K1")
@pytest.mark.slow
def test_a_command_of_an_agent_changes_no_settings(program):
    program.env["TEAMWRIGHT"] = "1"
    for args in (("set", "model", "haiku"), ("unset", "model")):
        assert error_of(program.run("config", *args))[0] == "not-for-agents"
    assert program.run("config", "list").returncode == 0


@pytest.mark.slow
def test_the_files_are_listed_and_the_schema_takes_what_was_set(program, repo):
    put(repo, ".claude/settings.json", {"teams": True})
    program.run("config", "set", "compact_at", "0.5")
    views = json.loads(program.run("config", "path", "--json").stdout)
    assert [view["file"].rpartition("/")[0].rpartition("/")[2] for view in views] == [
        ".claude", "home", ".claude", ".claude", ".teamwright", ".teamwright",
    ]  # fmt: skip
    assert [view["exists"] for view in views] == [False, True, True, False, False, False]
    assert f"  {program.home}/settings.json" in program.run("config", "path").stdout.splitlines()
    schema = json.loads(program.run("config", "schema").stdout)
    jsonschema.validate(json.loads((program.home / "settings.json").read_text()), schema)


@pytest.mark.slow
def test_all_keys_are_listed_with_their_defaults(program):
    lines = program.run("config", "list", "--all").stdout.splitlines()
    assert lines[0] == "defaults"
    assert any(line.split() == ["limits.members", "8"] for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.finding("U12")
@pytest.mark.slow
def test_set_reports_the_value_that_is_really_used(program, repo):
    put(repo, ".teamwright/settings.local.json", json.dumps({"retention_days": 9}))
    assert program.run("trust", "--yes").returncode == 0
    done = program.run("config", "set", "retention_days", "5")
    assert f"retention_days was changed in {program.home}/settings.json" in done.stdout
    assert f"used here: retention_days = 9 ({repo}/.teamwright/settings.local.json)" in done.stdout


@pytest.mark.finding("U12")
def test_a_settings_file_that_does_not_exist_is_named_as_such(program):
    done = program.run("--settings", "missing.json", "config", "list")
    slug, lines = error_of(done)
    assert (done.returncode, slug) == (3, "bad-settings")
    assert lines[0].endswith("missing.json does not exist")
