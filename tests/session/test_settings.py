"""Settings in layers: the nearest value, merged lists, warnings for the unknown, errors with file and line."""

import json
from pathlib import Path

import pytest

from teamwright.config.model_settings_parser import model_settings
from teamwright.config.settings.files import SettingsOrigin, read_layer
from teamwright.config.settings.keys import RENAMED_KEYS, setting_keys
from teamwright.config.settings.settings import SettingFlags
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.protocol.errors import CannotStart, UsageError


@pytest.mark.promise("G2")
def test_the_nearest_value_holds_and_says_where_it_came_from(repository, tmp_path):
    compat = Path.home() / ".claude" / "settings.json"
    compat.parent.mkdir()
    compat.write_text(json.dumps({"model": "from-compat", "env": {"A": "compat", "B": "compat"}}))
    repository.user({"model": "from-user", "env": {"A": "user"}})
    assert repository.settings().models["model"] == "from-user"
    repository.write(".claude/settings.json", {"model": "from-claude"})
    repository.write(".teamwright/settings.json", {"model": "from-shared"})
    local = repository.write(".teamwright/settings.local.json", {"model": "from-local"})
    assert repository.settings().models["model"] == "from-user"
    repository.trust()
    settings = repository.settings()
    assert (settings.models["model"], settings.origins["model"]) == ("from-local", str(local))
    assert dict(settings.env) == {"A": "user", "B": "compat"}
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"model": "from-given"}))
    assert repository.settings(SettingFlags(settings_file=given)).models["model"] == "from-given"
    flagged = repository.settings(SettingFlags(settings_file=given, model="from-flag"))
    assert (flagged.models["model"], flagged.origins["model"]) == ("from-flag", "--model")


@pytest.mark.promise("G2")
def test_lists_merge_and_a_deny_of_any_layer_wins(repository):
    repository.user({"permissions": {"allow": ["Bash(make:*)", "Bash(npm:*)"]}})
    repository.write(".teamwright/settings.json", {"permissions": {"deny": ["Bash(npm publish:*)"]}})
    policy = repository.policy(SettingFlags(allowed_tools=("Bash(npm publish:*)",)))

    def verdict(command):
        return policy.decide("Bash", Access(command=command, cwd=repository.root))

    assert verdict("make").verdict is Verdict.ALLOW
    assert verdict("npm test").verdict is Verdict.ALLOW
    assert verdict("npm publish").verdict is Verdict.DENY
    assert str(repository.root / ".teamwright/settings.json") in verdict("npm publish").rule


@pytest.mark.finding("P17")
def test_variables_that_commands_get_are_named_by_the_users_own_files_only(repository, tmp_path):
    repository.user({"bash": {"pass_env": ["GH_TOKEN"]}})
    repository.write(".teamwright/settings.json", {"bash": {"pass_env": ["*"]}})
    repository.trust()
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"bash": {"pass_env": ["NPM_*"]}}))
    assert list(repository.settings(SettingFlags(settings_file=given)).bash.pass_env) == ["GH_TOKEN", "NPM_*"]


@pytest.mark.promise("K1")
def test_files_of_the_other_product_are_read_only_as_the_user_wishes(repository):
    compat = Path.home() / ".claude" / "settings.json"
    compat.parent.mkdir()
    compat.write_text(
        json.dumps({"permissions": {"deny": ["Bash(ls:*)"], "defaultMode": "bypassPermissions"}, "model": "x"})
    )
    settings = repository.settings()
    assert (settings.mode, len(settings.rules)) == (Mode.DEFAULT, 1)
    assert any("bypassPermissions" in warning for warning in settings.warnings)
    repository.user({"compat": {"claude": False}})
    settings = repository.settings()
    assert (settings.rules, settings.models, settings.compat) == ((), {}, False)


def test_the_users_own_file_may_say_everything(repository):
    repository.user(
        {
            "permissions": {"defaultMode": "bypassPermissions", "additionalDirectories": ["~/x", "../y"]},
            "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"},
            "providers": {"house": {"base_url": "http://house:1", "key_env": "HOUSE_KEY"}},
            "prices": {"house/m": {"usd_in": 1, "usd_out": 2.5}},
            "limits": {"members": 2, "spawns_per_minute": 3},
            "bash": {"timeout_s": 5, "output_chars": 100},
            "dedupe_names": True,
            "ask_timeout_s": None,
            "retries": 1,
        }
    )
    settings = repository.settings()
    assert settings.mode is Mode.BYPASS
    assert settings.directories == (Path.home() / "x", repository.root.parent / "y")
    assert settings.env == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    assert (settings.limits.members, settings.limits.per_minute, settings.limits.spawns) == (2, 3, 32)
    assert (settings.bash.timeout_s, settings.bash.max_output, settings.team.dedupe_names) == (5, 100, True)
    models = model_settings(settings)
    assert models.custom["house"].base_url == "http://house:1"
    assert (models.prices["house/m"].usd_out, models.retries) == (2.5, 1)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ('{\n  "model": "x",\n  "teams": tru\n}', "line 3, column 12"),
        ('{\n  "model": 3\n}', "line 2, model"),
        ('{"limits": {\n"members": -1}}', "line 2, limits.members"),
        ('{"limits": {"members": true}}', "limits.members"),
        ('{"bash": {"timeout_s": 0}}', "bash.timeout_s"),
        ('{"permissions": {"allow": ["x", 3]}}', "permissions.allow"),
        ('{"env": {"A": 1}}', "line 1, env"),
        ('{"permissions": {"allow": ["Bash(ls"]}}', "permissions.allow"),
        ('{"permissions": {"defaultMode": "acceptEdit"}}', "permissions.defaultMode"),
        ('{"permissions": []}', "permissions"),
        ("[]", "line 1"),
    ],
)
def test_a_file_of_the_user_that_is_not_understood_stops_the_start_with_file_and_place(repository, content, where):
    repository.user(content)
    with pytest.raises(CannotStart) as caught:
        repository.settings()
    assert (caught.value.slug, caught.value.exit_code) == ("bad-settings", 3)
    assert str(repository.home.settings) in caught.value.render()
    assert where in caught.value.render()


def test_a_settings_file_that_was_named_and_is_not_there_stops_the_start(repository, tmp_path):
    with pytest.raises(CannotStart):
        repository.settings(SettingFlags(settings_file=tmp_path / "nowhere.json"))


def test_unknown_keys_are_warnings_that_name_the_nearest(repository):
    repository.user({"modle": "x", "cleanupPeriodDays": 3, "$schema": "x", "limits": {"member": 3}})
    warnings = "\n".join(repository.settings().warnings)
    assert "modle is not a setting; did you mean model?" in warnings
    assert "limits.member is not a setting; did you mean limits.members?" in warnings
    assert "cleanupPeriodDays is not used yet" in warnings
    assert "$schema" not in warnings


def test_an_earlier_name_of_a_setting_is_read_with_one_warning_that_names_the_new_one(repository):
    earlier = {"goodbye_s": 3, "members": {"grace_s": 7}, "headless_asks": "wait", "stagger_s": None}
    repository.user(earlier | {"assistant": True})
    settings = repository.settings()
    assert (settings.team.shutdown_timeout_s, settings.places.orphan_timeout_s) == (3, 7)
    assert (settings.unattended_requests, settings.models["cache_warmup_s"]) == ("wait", None)
    assert settings.agents.background == "always"
    assert sorted(line.partition(": ")[2] for line in settings.warnings) == [
        f"{old} is called {new} now: rename it" for old, new in sorted(RENAMED_KEYS.items()) if old != "members.recipes"
    ]
    repository.user({"assistant": False})
    assert repository.settings().agents.background is True
    repository.user({"goodbye_s": 3, "shutdown_timeout_s": 5})
    settings = repository.settings()
    assert settings.team.shutdown_timeout_s == 5
    assert [line.partition(": ")[2] for line in settings.warnings] == [
        "goodbye_s is not used: it is the old name of shutdown_timeout_s, which the file also has"
    ]
    repository.user({"members": {"grace_s": 0}})
    with pytest.raises(CannotStart) as refused:
        repository.settings()
    assert (
        "members.grace_s must be" in refused.value.what and ("at", "line 1, members.grace_s") in refused.value.looked_at
    )


def test_what_the_earlier_names_became_are_settings():
    keys = setting_keys().keys()
    assert set(RENAMED_KEYS.values()) <= keys and not RENAMED_KEYS.keys() & keys


@pytest.mark.promise("K7")
def test_keys_of_the_other_product_without_effect_here_are_one_line_and_slips_are_told(repository):
    usual = {"cleanupPeriodDays": 3, "enabledPlugins": {}, "spinnerTipsEnabled": False, "theme": "dark"}
    env = {"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_BASE_URL": "https://x"}
    repository.write(".claude/settings.json", {**usual, "permisions": {}, "hooks": {"preToolUse": []}, "env": env})
    repository.trust()
    told = [line.partition(": ")[2] for line in repository.settings().warnings]
    assert told == [
        "permisions is not used; did you mean permissions?",
        "cleanupPeriodDays, enabledPlugins and 3 others have no effect here; teamwright check says why",
        "hooks of the event preToolUse are not supported; did you mean PreToolUse?",
        "the variable ANTHROPIC_BASE_URL is taken from your own settings only",
    ]


@pytest.mark.finding("3H9")
@pytest.mark.parametrize("name", ["GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_DIR", "GIT_WORK_TREE"])
def test_a_trusted_repository_gives_git_no_configuration_and_no_other_repository_by_variables(repository, name):
    repository.write(".teamwright/settings.json", {"env": {name: "'core.fsmonitor=./x'", "PORT": "1"}})
    repository.trust()
    settings = repository.settings()
    assert dict(settings.env) == {"PORT": "1"}
    assert any(f"the variable {name} is taken from your own settings only" in one for one in settings.warnings)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"model": "x",}', "there is a comma too many, before }"),
        ('{"permissions": {"allow": ["Bash(ls)",\n]}}', "there is a comma too many, before ]"),
        ('// mine\n{"model": "x"}', "there is a comment, and JSON has none"),
        ('{"model": "x" /* why */}', "there is a comment, and JSON has none"),
        ('{"model": "x"', "it ends too early"),
    ],
)
def test_what_other_formats_take_and_json_does_not_is_called_what_it_is(repository, content, why):
    repository.user(content)
    with pytest.raises(CannotStart) as caught:
        repository.settings()
    assert why in caught.value.render()


@pytest.mark.promise("G1")
def test_a_mode_that_nobody_knows_is_refused_with_a_sentence(repository):
    with pytest.raises(UsageError) as caught:
        repository.settings(SettingFlags(permission_mode="bypas"))
    assert "bypassPermissions" in caught.value.render()


@pytest.mark.promise("G2")
def test_tool_lists_become_rules_and_a_bare_disallowed_tool_is_hidden(repository):
    policy = repository.policy(
        SettingFlags(allowed_tools=("WebFetch",), disallowed_tools=("Write", "Bash(rm:*)", "mcp__db__*"))
    )
    assert policy.decide("WebFetch", Access(url="https://example.org")).verdict is Verdict.ALLOW
    assert policy.hidden_tools == {"Write", "mcp__db__*"}
    assert policy.hides("mcp__db__query")
    assert not policy.hides("Edit")
    assert not policy.hides("Bash")


def test_the_home_directory_as_a_project_does_not_make_the_users_file_a_strangers(own_home, repository):
    compat = own_home / ".claude" / "settings.json"
    compat.parent.mkdir()
    compat.write_text(json.dumps({"model": "mine"}))
    repository.root = own_home
    settings = repository.settings()
    assert settings.models == {"model": "mine"}


def test_every_key_has_a_sentence(tmp_path):
    for key in setting_keys().values():
        assert key.meaning.endswith(".")
    path = tmp_path / "empty.json"
    path.write_text("")
    layer = read_layer(path, SettingsOrigin.USER)
    assert layer is not None
    assert layer.values == {}


def test_a_run_may_leave_out_what_files_allow_and_keep_what_they_deny(repository):
    repository.user(
        {"permissions": {"allow": ["Bash(git commit:*)"], "deny": ["Bash(ls:*)"], "additionalDirectories": ["/srv"]}}
    )
    found = repository.settings(SettingFlags(allowed_tools=("Bash(make:*)",), only_allowed=True))
    assert [(rule.text, rule.verdict) for rule in found.rules] == [
        ("Bash(ls:*)", Verdict.DENY),
        ("Bash(make:*)", Verdict.ALLOW),
    ]
    assert found.directories == ()
    assert len(repository.settings().rules) == 2
