"""The profile for Seatbelt of macOS, read and applied as text: the last rule that matches an act decides."""

import re
from pathlib import Path

import pytest

from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.command_needs import NO_NEEDS, CommandNeeds, command_needs
from teamwright.sandbox.command_policy import ConfinementRequest, make_policy
from teamwright.sandbox.network_proxy import NetworkRoute
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, SandboxSettings
from teamwright.sandbox.sandbox import Implementation, Sandbox, report_sandbox
from teamwright.sandbox.seatbelt import Seatbelt, quote

_TOKENS = re.compile(r'\s*(?:(?P<mark>[()])|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[^\s()"]+))', re.S)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_rules(profile: str) -> list[list]:
    """Return the rules as nested lists; a text is a `str` in a list of its kind and itself."""
    stack: list[list] = [[]]
    at = 0
    while profile[at:].strip():
        found = _TOKENS.match(profile, at)
        assert found is not None, profile[at:]
        at = found.end()
        if found["mark"] == "(":
            stack.append([])
        elif found["mark"] == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif found["text"] is not None:
            stack[-1].append(re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), found["text"], flags=re.S))
        else:
            stack[-1].append(found["word"])
    [rules] = stack
    return rules


def allows(profile: str, act: str, path: str) -> bool:
    """Return the verdict of a profile on an act on a path."""
    verdict = False
    for kind, *rest in read_rules(profile)[2:]:
        acts = [one for one in rest if isinstance(one, str)]
        filters = [one for one in rest if isinstance(one, list)]
        covered = any(act == one or (one.endswith("*") and act.startswith(one[:-1])) for one in acts)
        inside = [
            path == one[1] or (one[0] == "subpath" and path.startswith(one[1].rstrip("/") + "/"))
            for one in filters
            if one[0] in {"subpath", "literal"}
        ]
        if covered and (not filters or any(inside)):
            verdict = kind == "allow"
    return verdict


def profile(confined, policy: PolicyName, needs: CommandNeeds = NO_NEEDS, work: Path | None = None) -> str:
    request = ConfinementRequest(policy, (work or confined.work,), needs)
    return Seatbelt(make_policy(request, confined.place)).profile()


def test_a_profile_denies_all_that_it_does_not_name(confined):
    for policy in (PolicyName.READ, PolicyName.WORK):
        rules = read_rules(profile(confined, policy))
        assert rules[:2] == [["version", "1"], ["deny", "default"]]
        acts = {act for kind, *rest in rules if kind == "allow" for act in rest if isinstance(act, str)}
        assert not acts & {"default", "file*", "network*", "mach*", "sysctl*", "signal*", "file-link", "process*"}
        assert "com.apple.SecurityServer" not in str(rules)


@pytest.mark.parametrize(
    ("act", "path", "reads", "works"),
    [
        ("file-read-data", "/usr/bin/git", True, True),
        ("file-read-data", "{work}/a.txt", True, True),
        ("file-read-data", "{home}/notes.txt", False, True),
        ("file-read-data", "{home}/.ssh/id_ed25519", False, False),
        ("file-read-data", "{state}/inbox.json", False, False),
        ("file-read-data", "{state}/output/c1.output", True, True),
        ("file-write-data", "{work}/a.txt", False, True),
        ("file-write-create", "{home}/.cache/x", False, True),
        ("file-write-create", "{state}/tmp/x", False, True),
        ("file-write-create", "{home}/.zshrc", False, False),
        ("file-write-create", "{work}/.git/hooks/pre-commit", False, False),
        ("file-write-data", "{work}/.git/config", False, False),
        ("file-write-create", "{work}/.git/config.worktree", False, False),
        ("file-write-create", "{work}/.mcp.json", False, True),
        ("file-write-unlink", "{work}/.git", False, False),
        ("file-write-create", "{work}/.git/index.lock", False, True),
        ("file-write-data", "/dev/null", True, True),
        ("file-write-data", "/dev/ttys001", False, False),
    ],
)
@pytest.mark.slow_after(3)
def test_each_policy_decides_about_files(confined, act, path, reads, works):
    path = path.format(work=confined.work, home=confined.home, state=confined.state)
    assert allows(profile(confined, PolicyName.READ), act, path) is reads
    assert allows(profile(confined, PolicyName.WORK), act, path) is works


def test_no_directory_above_a_hidden_path_can_be_moved_away(confined):
    (confined.home / ".config/gh").mkdir(parents=True)
    text = profile(confined, PolicyName.WORK, work=confined.home)
    assert allows(text, "file-write-create", f"{confined.home}/.config/other")
    assert not allows(text, "file-write-unlink", f"{confined.home}/.config")
    assert not allows(text, "file-write-unlink", f"{confined.home}/.config/gh")


@pytest.mark.parametrize("name", ['a"))(allow default)(b', "line\nbreak", "back\\slash", "tab\t;quote\"'", "ünï—code"])
def test_a_path_with_any_characters_stays_one_path(confined, name):
    odd = confined.work / name
    (odd / ".claude").mkdir(parents=True)
    text = profile(confined, PolicyName.WORK, work=odd)
    assert allows(text, "file-write-data", f"{odd}/file") and not allows(text, "file-write-data", f"{odd}/.claude/x")
    plain = profile(confined, PolicyName.WORK, work=confined.work / "missing")
    assert not allows(text, "file-read-data", str(confined.home / ".ssh/id")) and "(allow default)" not in plain
    assert [rule for rule in read_rules(text) if "default" in rule] == [["deny", "default"]]
    with pytest.raises(ValueError, match="null byte"):
        quote("a\0b")


def test_the_network_is_the_proxy_or_what_the_command_names(confined):
    nothing = Seatbelt(SandboxPolicy(PolicyName.WORK)).profile()
    assert not allows(nothing, "network-outbound", "/var/run/docker.sock") and "network" not in nothing

    async def ask(_host: str, _port: int, _is_named: bool) -> bool:
        return False

    route = NetworkRoute(4711, "key", ask)
    by_proxy = Seatbelt(SandboxPolicy(PolicyName.WORK, network=NetworkAccess.ASK), route).profile()
    [rule] = [rule for rule in read_rules(by_proxy) if "network" in str(rule)]
    assert rule == ["allow", "network-outbound", ["remote", "ip", "localhost:4711"]]
    agent = str(confined.home / "agent.sock")
    Path(agent).touch()
    confined.env["SSH_AUTH_SOCK"] = agent
    pushes = profile(confined, PolicyName.WORK, command_needs([["git", "push"]]))
    assert allows(pushes, "network-outbound", agent) and not allows(nothing, "network-outbound", agent)
    assert allows(pushes, "file-read-data", str(confined.home / ".ssh/id_ed25519"))


def test_an_untried_sandbox_answers_no_question_and_says_so(confined, monkeypatch):
    found = Implementation("seatbelt", reason="its profile was never tried on a Mac")
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: found)
    sandbox = Sandbox(SandboxSettings(auto_allow=True), confined.place)
    assert not sandbox.answers() and not sandbox.holds_all
    assert isinstance(sandbox.confine(ConfinementRequest(PolicyName.READ, (confined.work,))), Seatbelt)
    report = report_sandbox(SandboxSettings())
    assert report.summary == "seatbelt: nothing counts as enforced: its profile was never tried on a Mac"
    assert "untried" in report.warning()
