"""Updates: shapes on the wire, what is offered with a request, and that no answer reaches too far."""

import json
import os
from pathlib import Path

import pytest

from teamwright.permissions.grant_offers import suggest_updates
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.permission_update_json import MAX_ENTRIES, from_wire, to_wire
from teamwright.permissions.verdict import Access, Mode, PermissionUpdate, Verdict
from teamwright.protocol.errors import UsageError

WIRE = [
    ('{"type":"addDirectories","directories":["/data/x"],"destination":"session"}', "addDirectories"),
    ('{"type":"setMode","mode":"acceptEdits","destination":"session"}', "setMode"),
    (
        '{"type":"addRules","rules":[{"toolName":"Read","ruleContent":"//tmp/**"}],"behavior":"allow",'
        '"destination":"session"}',
        "addRules",
    ),
    (
        '{"type":"addRules","rules":[{"toolName":"mcp__db__query"},{"toolName":"Bash","ruleContent":"f(x) y"}],'
        '"behavior":"deny","destination":"localSettings"}',
        "addRules",
    ),
]


@pytest.mark.promise("G4")
@pytest.mark.parametrize(("text", "kind"), WIRE)
def test_an_update_is_the_same_after_the_wire(text, kind):
    update = from_wire(json.loads(text))
    assert update.kind == kind
    assert json.dumps(to_wire(update), separators=(",", ":")) == text
    assert from_wire(to_wire(update)) == update


NOT_TAKEN = [
    None,
    "setMode",
    [],
    {},
    {"type": "replaceRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"},
    {"type": "removeRules", "rules": []},
    {"type": "removeDirectories", "directories": ["/x"]},
    {"type": "grantAll"},
    {"type": "setMode"},
    {"type": "setMode", "mode": 3},
    {"type": "setMode", "mode": "root"},
    {"type": "setMode", "mode": "plan", "destination": "/etc/passwd"},
    {"type": "setMode", "mode": "plan", "destination": ["session"]},
    {"type": "addDirectories"},
    {"type": "addDirectories", "directories": "/x"},
    {"type": "addDirectories", "directories": []},
    {"type": "addDirectories", "directories": [""]},
    {"type": "addDirectories", "directories": ["/a\0b"]},
    {"type": "addDirectories", "directories": [{"path": "/x"}]},
    {"type": "addDirectories", "directories": ["/x"] * (MAX_ENTRIES + 1)},
    {"type": "addRules", "rules": []},
    {"type": "addRules", "rules": [3]},
    {"type": "addRules", "rules": [{"ruleContent": "x"}]},
    {"type": "addRules", "rules": [{"toolName": "Bash(ls)"}]},
    {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": 3}]},
    {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "'"}]},
    {"type": "addRules", "rules": [{"toolName": "Read", "ruleContent": "../x"}]},
    {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "x" * 5_000}]},
    {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "ls"}], "behavior": "maybe"},
]


@pytest.mark.promise("G4", "P7")
@pytest.mark.parametrize("value", NOT_TAKEN, ids=lambda value: str(value)[:60])
def test_what_is_no_update_or_takes_away_is_refused_with_a_sentence(value):
    with pytest.raises(UsageError) as caught:
        from_wire(value)
    assert len(caught.value.what) < 300


def asked(scratch, tool, access, mode=Mode.DEFAULT, **rules):
    policy = scratch.policy(mode, **rules)
    decision = policy.decide(tool, access)
    return policy, decision, suggest_updates(tool, access, decision, policy, decision.find_always())


def bash(scratch, command):
    return "Bash", Access(command=command, cwd=scratch.project)


def shown(updates):
    return [(one.kind, *one.directories, *one.rules, *([one.mode] if one.mode else [])) for one in updates]


EDITS = ("setMode", "acceptEdits")


@pytest.mark.promise("G4")
@pytest.mark.finding("3S12")
def test_what_is_offered_answers_the_same_call_and_is_the_narrowest(scratch):
    outside, project = scratch.outside, scratch.project
    out = ("addDirectories", str(outside))
    new = ("addDirectories", str(outside / "new"))
    read, write = (lambda path: ("Read", Access(reads=(path,)))), (lambda path: ("Write", Access(writes=(path,))))
    for (tool, access), mode, expected in [
        (read(outside / "secret"), Mode.DEFAULT, [out]),
        (read(outside), Mode.DEFAULT, [out]),
        (read(project / "link" / "secret"), Mode.DEFAULT, [out]),
        (("Grep", Access(reads=(outside,))), Mode.ACCEPT_EDITS, [out]),
        (write(project / "new.py"), Mode.DEFAULT, [EDITS]),
        (write(outside / "new.py"), Mode.DEFAULT, [out, EDITS]),
        (write(outside / "new.py"), Mode.ACCEPT_EDITS, [out]),
        (write(outside / "new" / "x"), Mode.DELEGATE, [new]),
        (bash(scratch, f"cat {outside}/secret"), Mode.DEFAULT, [out]),
        (bash(scratch, f"cat {outside}/secret | wc -l"), Mode.DEFAULT, [out]),
        (bash(scratch, f"wc -l < {outside}/secret"), Mode.DEFAULT, [out]),
        (bash(scratch, f"mkdir -p {outside}/new"), Mode.ACCEPT_EDITS, [out]),
        (bash(scratch, f"mkdir -p {outside}/new/deep"), Mode.ACCEPT_EDITS, [out]),
        (bash(scratch, f"mkdir -p {outside}"), Mode.ACCEPT_EDITS, [out]),
        (bash(scratch, f"touch {outside}/f"), Mode.ACCEPT_EDITS, [out]),
        (bash(scratch, f"cp a.py {outside}"), Mode.DEFAULT, [out, EDITS]),
        (bash(scratch, "mkdir src/new"), Mode.DEFAULT, [EDITS]),
        (bash(scratch, "npm test"), Mode.DEFAULT, [("addRules", "Bash(npm test:*)")]),
        (bash(scratch, "git commit -m x"), Mode.DEFAULT, [("addRules", "Bash(git commit:*)")]),
        (("WebFetch", Access(url="https://example.org")), Mode.DEFAULT, [("addRules", "WebFetch(domain:example.org)")]),
        (("mcp__db__query", Access()), Mode.DEFAULT, [("addRules", "mcp__db__query")]),
    ]:
        policy, decision, offered = asked(scratch, tool, access, mode)
        assert (decision.verdict, shown(offered)) == (Verdict.ASK, expected), access
        for update in offered:
            policy.apply_update(from_wire(to_wire(update)), by_user=True)
        assert policy.decide(tool, access).verdict is Verdict.ALLOW, access


@pytest.mark.promise("G4")
@pytest.mark.parametrize("command", ["rm -rf x", "npm test && curl x", "echo x > out", "ls )", "git $X", "cat a $Y"])
def test_nothing_is_offered_that_would_not_answer_or_reach_further(scratch, command):
    assert asked(scratch, *bash(scratch, command))[2] == ()


@pytest.mark.promise("G4", "P7")
def test_nothing_is_offered_for_guarded_private_and_fenced_files_nor_for_what_is_no_ask(scratch):
    secret = Access(reads=(scratch.outside / "secret",))
    for tool, access, rules in [
        ("Write", Access(writes=(scratch.project / ".envrc",)), {}),
        ("Write", Access(writes=(scratch.home / "x",)), {}),
        ("Read", Access(reads=(Path("/etc/hosts"),)), {}),
        ("Read", Access(reads=(Path.home() / ".ssh" / "id_rsa",)), {}),
        ("Read", secret, {"ask": ["Read"]}),
        ("Read", secret, {"deny": ["Read"]}),
        ("Read", secret, {"allow": [f"Read(/{scratch.outside}/**)"]}),
    ]:
        _, decision, offered = asked(scratch, tool, access, **rules)
        assert offered == (), (access, decision)
    assert asked(scratch, "Write", Access(writes=(scratch.project / "x",)), Mode.DONT_ASK)[2] == ()
    assert asked(scratch, "Write", Access(writes=(scratch.project / "x",)), Mode.PLAN)[2] == ()


RUNNERS = """
npx
pnpx
bunx
bun x
uvx
uv run
npm exec
pnpm dlx
pipx run
poetry run
docker exec
kubectl exec
docker compose exec
nix run
strace
env
xargs
"""

REFUSED = [
    *(PermissionUpdate("setMode", mode=mode) for mode in (Mode.BYPASS, Mode.BUBBLE, Mode.DELEGATE)),
    *(
        PermissionUpdate("addDirectories", directories=(path,))
        for path in ("/", "/etc", "//", "/proc/1", "/usr/..", "~", "relative", "", "/home", "~/.ssh")
    ),
    *(
        PermissionUpdate("addRules", rules=(rule,))
        for rule in (
            "Bash",
            "Bash(*)",
            "Bash(* push)",
            "Bash(python:*)",
            "Bash(/bin/bash *)",
            "Bash(sudo:*)",
            "Bash(:*)",
            *(f"Bash({runner}:*)" for runner in RUNNERS.strip().splitlines()),
            "Bash(/usr/bin/uv run *)",
            "Edit",
            "Write(**)",
            "Read",
            "Read(//**)",
            "Read(//etc/**)",
        )
    ),
    *(
        PermissionUpdate("addRules", rules=(rule,))
        for rule in (
            "Edit(~/**)",
            "Edit(.git/**)",
            "Edit(**/.envrc)",
            "WebFetch",
            "mcp__*",
            "Read(//*/x)",
            "Read(~/*/x)",
        )
    ),
]


@pytest.mark.promise("G4", "P7", "F46")
@pytest.mark.parametrize("update", REFUSED, ids=lambda update: str((*update.rules, *update.directories, update.mode)))
def test_an_answer_never_widens_beyond_bounds(scratch, update):
    policy = scratch.policy()
    before = (policy.mode, policy.rules, policy.scope)
    with pytest.raises(UsageError):
        policy.apply_update(update, by_user=True)
    assert (policy.mode, policy.rules, policy.scope) == before


@pytest.mark.finding("3F3")
@pytest.mark.parametrize(
    "rule", ["uv run pytest:*", "npx tsc:*", "docker exec web ls:*", "npm test:*", "uv run", "npx"]
)
def test_an_answer_may_allow_a_program_by_its_name_behind_a_runner(scratch, rule):
    policy = scratch.policy()
    policy.apply_update(PermissionUpdate("addRules", rules=(f"Bash({rule})",)), by_user=True)


@pytest.mark.promise("G4", "P7")
def test_no_answer_opens_what_belongs_to_teamwright_or_what_holds_it(scratch):
    policy = scratch.policy()
    for place in (scratch.home, scratch.home / "teams", scratch.home.parent):
        with pytest.raises(UsageError):
            policy.apply_update(PermissionUpdate("addDirectories", directories=(str(place),)), by_user=True)
        with pytest.raises(UsageError):
            policy.apply_update(PermissionUpdate("addRules", rules=(f"Read(/{place}/**)",)), by_user=True)
    os.symlink(scratch.home, scratch.project / "harmless")
    with pytest.raises(UsageError):
        policy.apply_update(
            PermissionUpdate("addDirectories", directories=(str(scratch.project / "harmless"),)), by_user=True
        )
    os.unlink(scratch.project / "harmless")


@pytest.mark.promise("G4")
def test_an_answer_may_always_forbid(scratch):
    policy = scratch.policy(Mode.BYPASS)
    policy.apply_update(PermissionUpdate("addRules", rules=("Bash", "Edit(//**)"), behavior="deny"))
    assert policy.decide(*bash(scratch, "ls")).verdict is Verdict.DENY
    assert policy.decide("Edit", Access(writes=(scratch.project / "a.py",))).rule.endswith("[granted with an answer]")


@pytest.mark.promise("G1", "G4")
def test_no_answer_to_something_else_ends_plan_mode(scratch):
    lead = scratch.policy(Mode.PLAN)
    for policy in (lead, Policy(Mode.BUBBLE).narrow_to(lead)):
        with pytest.raises(UsageError, match="plan was approved"):
            policy.apply_update(PermissionUpdate("setMode", mode=Mode.ACCEPT_EDITS), by_user=True)
    assert lead.mode is Mode.PLAN


@pytest.mark.promise("G4", "K9")
def test_only_a_person_answers_git_manners(scratch):
    commit = PermissionUpdate("addRules", rules=("Bash(git commit:*)",))
    for by_user, verdict in ((False, Verdict.ASK), (True, Verdict.ALLOW)):
        policy = scratch.policy()
        policy.apply_update(commit, by_user=by_user)
        assert policy.decide(*bash(scratch, "git commit -m x")).verdict is verdict


@pytest.mark.promise("G3", "F46")
def test_what_is_granted_to_a_child_alone_reaches_no_further_than_its_parent(scratch):
    lead = scratch.policy()
    child = scratch.policy(Mode.ACCEPT_EDITS).narrow_to(lead)
    child.apply_update(PermissionUpdate("addDirectories", directories=(str(scratch.outside),)))
    child.apply_update(PermissionUpdate("addRules", rules=("Bash(npm test:*)",)), by_user=True)
    secret = ("Read", Access(reads=(scratch.outside / "secret",)))
    for tool, access in (secret, bash(scratch, "npm test")):
        assert child.decide(tool, access).verdict is Verdict.ASK
    lead.apply_update(PermissionUpdate("addDirectories", directories=(str(scratch.outside),)))
    assert child.decide(*secret).verdict is Verdict.ALLOW
