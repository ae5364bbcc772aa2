"""One value of one file of ours: checked as a run checks it, and nothing else in the file is touched."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from teamwright.config.settings.edit import SettingTarget, set_value, unset_value
from teamwright.config.settings.show import SettingsQuery, files, values, values_of
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from tests.session.compatibility.folder import fill


def change(repository, target="user") -> SettingTarget:
    return SettingTarget(repository.home, repository.root, target)


def written(repository) -> dict:
    return json.loads(repository.home.settings.read_text())


@pytest.mark.promise("K7")
@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("teams", "true", True),
        ("limits.members", "3", 3),
        ("compact_at", "null", None),
        ("compact_at", "0.5", 0.5),
        ("model", "3", "3"),
        ("model", "ollama/qwen3", "ollama/qwen3"),
        ("effort", "high", "high"),
        ("permissions.allow", "Bash(git log:*)", ["Bash(git log:*)"]),
        ("permissions.allow", '["Bash(make:*)", "Read"]', ["Bash(make:*)", "Read"]),
        ("plan_approval", "human", "human"),
        ("providers", '{"mine": {"base_url": "http://127.0.0.1:1"}}', {"mine": {"base_url": "http://127.0.0.1:1"}}),
    ],
)
def test_a_text_becomes_what_the_key_must_be(repository, key, text, value):
    assert set_value(change(repository), key, text).changed
    said = written(repository)
    for part in key.split("."):
        said = said[part]
    assert said == value
    assert repository.home.settings.stat().st_mode & 0o777 == 0o600
    [found] = [one for one in values(SettingsQuery(repository.home, repository.root)) if one.key == key][:1]
    assert (found.state, found.file) == ("used", str(repository.home.settings))


def test_a_change_keeps_the_keys_that_are_unknown_here(repository):
    repository.user({"theirs": {"x": [1]}, "members": {"later": True}, "shutdown_timeout_s": 2})
    assert set_value(change(repository), "members.orphan_timeout_s", "9").changed
    assert written(repository) == {
        "theirs": {"x": [1]},
        "members": {"later": True, "orphan_timeout_s": 9},
        "shutdown_timeout_s": 2,
    }


def test_changes_at_the_same_time_are_all_kept(repository):
    names = [f"env.V{n}" for n in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: set_value(change(repository), name, "1"), names))
    assert written(repository) == {"env": {f"V{n}": "1" for n in range(8)}}


@pytest.mark.parametrize("name", ["members.orphan_timeout_s", "members.grace_s"])
def test_a_change_of_a_key_replaces_its_earlier_name(repository, name):
    repository.user({"members": {"grace_s": 7, "commands": {}}})
    assert set_value(change(repository), name, "9").changed
    assert written(repository) == {"members": {"commands": {}, "orphan_timeout_s": 9}}
    repository.user({"members": {"grace_s": 7}, "goodbye_s": 2})
    assert unset_value(change(repository), name).changed
    assert written(repository) == {"goodbye_s": 2}


def test_one_part_of_a_key_keeps_the_parts_under_its_earlier_name(repository):
    repository.user({"members": {"recipes": {"mine": {"start": "a"}}}})
    assert set_value(change(repository), "members.adapters.other", '{"start": "b"}').changed
    assert written(repository) == {"members": {"adapters": {"mine": {"start": "a"}, "other": {"start": "b"}}}}


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("limits.members", "four", "a whole number"),
        ("limits.members", "-1", "a whole number"),
        ("teams", "yes", "true or false"),
        ("plan_approval", "me", "lead, human or auto"),
        ("limit.members", "3", "did you mean limits.members?"),
        ("limits", "3", "limits.members"),
        ("permissions.allow", "Bash((", "cannot be set so"),
        ("permissions.defaultMode", "plann", "cannot be set so"),
        ("members.backend", "tmuxx", "did you mean tmux?"),
        ("members.command", "nobody", "is none of"),
        ("providers", '{"mine": {}}', "base_url"),
        ("hooks", '{"Stopp": []}', "did you mean Stop?"),
        ("hooks", '{"Stop": [{"hooks": [{"type": "wish"}]}]}', "not supported"),
    ],
)
def test_what_a_run_would_refuse_or_leave_out_is_not_written(repository, key, text, why):
    repository.user({"model": "sonnet"})
    before = repository.home.settings.read_bytes()
    with pytest.raises(UsageError) as caught:
        set_value(change(repository), key, text)
    assert why in caught.value.render()
    assert repository.home.settings.read_bytes() == before


def test_everything_else_in_the_file_stays_and_its_order_too(repository):
    repository.user('{"// mine": "note", "zeta": 1, "model": "sonnet", "hooks": {"Nope": []}}')
    set_value(change(repository), "limits.members", "3")
    set_value(change(repository), "hooks", '{"Nope": [], "Stop": []}')
    assert list(written(repository)) == ["// mine", "zeta", "model", "hooks", "limits"]
    assert repository.home.settings.read_text().startswith('{\n  "// mine": "note",\n')
    assert not set_value(change(repository), "limits.members", "3").changed
    assert unset_value(change(repository), "limits.members").changed
    assert "limits" not in written(repository), "an object that is empty then goes too"
    assert not unset_value(change(repository), "limits.members").changed


def test_one_part_of_an_object_is_set_by_its_name(repository):
    set_value(change(repository), "env.NODE_ENV", "3")
    set_value(change(repository), "mcpServers.db", '{"command": "db"}')
    assert written(repository) == {"env": {"NODE_ENV": "3"}, "mcpServers": {"db": {"command": "db"}}}


@pytest.mark.promise("K1")
@pytest.mark.parametrize("target", ["project", "local"])
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("providers", "{}"),
        ("members.backend", "tmux"),
        ("compat.claude", "false"),
        ("env.ANTHROPIC_BASE_URL", "http://x.example"),
        ("env.SOME_TOKEN", "x"),
        ("env", '{"HTTPS_PROXY": "http://x.example"}'),
        ("permissions.defaultMode", "bypassPermissions"),
    ],
)
def test_what_a_repository_may_not_say_is_refused_with_the_reason(repository, target, key, text):
    with pytest.raises(UsageError) as caught:
        set_value(change(repository, target), key, text)
    assert "is taken from your own settings only" in caught.value.render()
    assert not (repository.root / ".teamwright").exists()


@pytest.mark.promise("K1")
def test_what_a_person_writes_into_a_trusted_repository_is_trusted_and_else_waits(repository):
    done = set_value(change(repository, "project"), "permissions.allow", "Bash(make:*)")
    assert done.waits
    assert not repository.settings().rules
    repository.trust()
    done = set_value(change(repository, "local"), "model", "haiku")
    assert not done.waits
    assert repository.settings().models["model"] == "haiku"
    assert set_value(change(repository, "project"), "permissions.deny", "Read(.env)").waits is False


def test_the_checkouts_file_is_kept_out_of_git_and_no_gitignore_is_touched(repository):
    done = set_value(change(repository, "local"), "teams", "false")
    set_value(change(repository, "local"), "retries", "3")
    listed = (repository.root / ".git" / "info" / "exclude").read_text().splitlines()
    assert listed.count("/.teamwright/settings.local.json") == 1
    assert not (repository.root / ".gitignore").exists()
    assert os.stat(done.file).st_mode & 0o777 == 0o600


def test_a_link_out_of_the_repository_is_not_followed(repository, tmp_path):
    (tmp_path / "outside").mkdir()
    (repository.root / ".teamwright").symlink_to(tmp_path / "outside")
    with pytest.raises(TeamRefused):
        set_value(change(repository, "project"), "model", "haiku")
    assert not list((tmp_path / "outside").iterdir())


def test_a_file_that_cannot_be_read_is_not_written_over(repository):
    repository.user("{")
    with pytest.raises(TeamwrightError):
        set_value(change(repository), "model", "haiku")
    assert repository.home.settings.read_text() == "{"


@pytest.mark.promise("K7")
def test_each_value_is_shown_with_its_file_and_each_part_of_a_list_with_its_own(repository, own_home):
    fill(repository.root, own_home / ".claude")
    repository.user({"permissions": {"allow": ["Bash(ls:*)"]}, "model": "opus"})
    repository.trust()
    asked = SettingsQuery(repository.home, repository.root)
    allowed = {one.name: os.path.basename(one.file) for one in values_of(asked, "permissions.allow")}
    assert allowed == {
        "Bash(ls:*)": "settings.json",
        "Bash(npm run test:*)": "settings.json",
        "Read(~/.zshrc)": "settings.json",
        "Bash(make:*)": "settings.local.json",
    }
    [model] = values_of(asked, "model")
    assert model.file == str(repository.root / ".claude" / "settings.json")
    mine = [one for one in values(asked) if one.key == "model" and one.state == "ignored"]
    assert [one.why for one in mine] == [f"{model.file} is nearer"]
    [retries] = values_of(asked, "retries")
    assert (retries.value, retries.file) == (10, "default")
    assert [view.exists for view in files(asked)] == [True, True, True, True, False, False]


def test_secrets_are_masked(repository):
    secret = "ab12cd34ef56gh78"
    args = ["--api-key", secret, f"--token={secret}", "--port", "8080"]
    server = {"command": "x", "args": args, "env": {"A": secret, "B": "${B}"}, "headers": {"Authorization": secret}}
    address = {"type": "http", "url": f"https://u:{secret}@example.org/?api_key={secret}"}
    repository.user({"env": {"MY_TOKEN": secret, "PLAIN": "x"}, "mcpServers": {"a": server, "b": address}})
    shown = json.dumps(
        [one.value for one in values(SettingsQuery(repository.home, repository.root))], ensure_ascii=False
    )
    assert secret not in shown
    assert "${B}" in shown
    assert "…gh78" in shown
    assert "8080" in shown
