"""Children and parents: never weaker than anybody above, never stricter than the same rules and mode elsewhere."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.permissions.permission_decision import COORDINATION_TOOLS, Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import HARMLESS, Access, Decision, Mode, Verdict, stricter
from teamwright.protocol.runtime_tags import split_rules
from tests.permissions.scratch import ScratchRepository, judge
from tests.support.examples import examples

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY

COMMANDS = [
    *("ls", "git push", "git status", "npm test", "cat a.py && rm b.py", "touch src/x", "ls )", "cat link/secret"),
    *("git $X", "echo x > src/y", "mv a.py src/c.py", "A=1 npm test", "timeout 5 git push", "cat .env"),
]
RULES = split_rules("""
Bash, Bash(ls:*), Bash(git:*), Bash(git push:*), Bash(npm test), Bash(rm:*), Bash(cat:*), Bash(touch:*), Read,
Read(a.py), Read(link/**), Read(**), Edit, Edit(src/**), Edit(**), Write, WebFetch, WebFetch(domain:example.org),
Agent, Agent(Explore), TaskCreate, mcp__db, mcp__*, python__*, Grep
""")


@pytest.fixture(scope="module")
def calls(scratch: ScratchRepository) -> list[tuple[str, Access]]:
    """Calls of every kind."""
    project = scratch.project
    found = [("Bash", Access(command=command, cwd=project)) for command in COMMANDS]
    for path in ("a.py", "link/secret", ".git/config", "src/x.py", str(scratch.home / "trust.json"), "/etc/hosts"):
        found += [(tool, Access(reads=(project / path,))) for tool in ("Read", "Grep")]
        found += [(tool, Access(writes=(project / path,))) for tool in ("Edit", "Write", "NotebookEdit")]
    found += [("WebFetch", Access(url=url)) for url in ("https://example.org/x", "https://a.b", "http://[bad")]
    found += [("Agent", Access(subject=kind, harmless=True)) for kind in ("Explore", "x")]
    found += [("Agent", Access(subject="Explore", harmless=True, starts_teammate=True))]
    return [*found, ("TaskCreate", HARMLESS), ("mcp__db__query", Access()), ("python__count", Access())]


modes = st.sampled_from(list(Mode))
a_rule = st.tuples(st.sampled_from(list(Verdict)), st.sampled_from(RULES))
rule_lists = st.lists(a_rule, max_size=4)
routes = st.lists(modes, max_size=3)
"""The modes of those below the lead: a teammate, a sub-agent, and what that would start; none at all is the lead."""

changes = st.lists(
    st.one_of(
        st.tuples(st.just("mode"), st.integers(0, 3), modes),
        st.tuples(
            st.just("rule"), st.integers(0, 3), st.tuples(st.sampled_from(list(Verdict)), st.sampled_from(RULES))
        ),
        st.tuples(st.just("delegating"), st.just(0), st.booleans()),
        st.tuples(st.just("scope"), st.integers(0, 3), st.booleans()),
    ),
    max_size=4,
)


def rules_of(scratch: ScratchRepository, pairs) -> list:
    return [rule for verdict, text in pairs for rule in parse_rules([text], verdict, str(verdict), scratch.project)]


def started_by(parent: Policy, mode: Mode, lead: Policy) -> Policy:
    """A child as every route makes it: the lead's rules in a mode of its own, or nothing of its own."""
    return Policy(mode, () if mode is Mode.BUBBLE else lead.rules, lead.scope).narrow_to(parent)


def family(scratch: ScratchRepository, mode: Mode, rules, route) -> list[Policy]:
    """The lead and those below it, each started by the one before."""
    found = [Policy(mode, rules_of(scratch, rules), scratch.scope)]
    for below in route:
        found.append(started_by(found[-1], below, found[0]))
    return found


def change(scratch: ScratchRepository, members: list[Policy], what: str, at: int, value) -> None:
    member = members[at % len(members)]
    match what:
        case "mode":
            member.change_mode(value)
        case "rule":
            member.add_rules(*rules_of(scratch, [value]))
        case "delegating":
            member.change_delegation(value)
        case "scope":
            member.change_scope(scratch.scope if value else type(scratch.scope)(private=scratch.scope.private))


def verdicts(policy: Policy, calls) -> list[Decision]:
    return [policy.decide(tool, access) for tool, access in calls]


def judgements(policy: Policy, calls) -> list[tuple[Decision, str]]:
    return [judge(policy, tool, access) for tool, access in calls]


def without_its_own_limits(policy: Policy, calls) -> list[Decision]:
    """What a policy says for those below it: that its own agent only coordinates is nobody else's limit."""
    was = policy.is_delegating
    policy.change_delegation(False)
    try:
        return verdicts(policy, calls)
    finally:
        policy.change_delegation(was)


@pytest.mark.promise("F46", "G3")
@settings(max_examples=examples(80), deadline=None)
@given(mode=modes, rules=rule_lists, route=routes, later=changes)
def test_nobody_may_more_than_anybody_above_it_at_any_time(scratch, calls, mode, rules, route, later):
    members = family(scratch, mode, rules, route)
    for step in (None, *later):
        if step is not None:
            change(scratch, members, *step)
        found = [without_its_own_limits(member, calls) for member in members]
        for above, below in pairwise(found):  # and so on all the way down
            for call, one, other in zip(calls, below, above, strict=True):
                assert stricter(one.verdict, other.verdict) is one.verdict, (call, one, other)


@pytest.mark.promise("F45", "G3")
@settings(max_examples=examples(60), deadline=None)
@given(mode=modes, rules=rule_lists, depth=st.integers(1, 3))
def test_the_same_call_rules_and_mode_are_the_same_verdict_for_lead_teammate_and_subagent(
    scratch, calls, mode, rules, depth
):
    lead, *others = family(scratch, mode, rules, [mode] * depth)
    expected = [(d.verdict, d.rule, d.find_always()) for d in verdicts(lead, calls)]
    for member in others:
        assert [(d.verdict, d.rule, d.find_always()) for d in verdicts(member, calls)] == expected


@pytest.mark.promise("F45", "G3")
@settings(max_examples=examples(60), deadline=None)
@given(mode=modes, rules=rule_lists, other=modes, later=changes)
@pytest.mark.slow
def test_without_a_mode_of_its_own_a_child_is_its_caller_whatever_becomes_of_it(
    scratch, calls, mode, rules, other, later
):
    members = family(scratch, mode, rules, [other, Mode.BUBBLE, Mode.BUBBLE])
    caller, child, grandchild = members[1:]
    for step in (None, *later):
        if step is not None:
            change(scratch, members[:2], *step)
        expected = [(d.verdict, d.rule, d.find_always()) for d in without_its_own_limits(caller, calls)]
        for member in (child, grandchild):
            assert [(d.verdict, d.rule, d.find_always()) for d in verdicts(member, calls)] == expected
            assert member.display_mode is caller.effective_mode
            assert member.hidden_tools == caller.hidden_tools


@pytest.mark.promise("F45", "G6")
@settings(max_examples=examples(40), deadline=None)
@given(mode=modes, rules=rule_lists, route=routes)
@pytest.mark.slow
def test_that_the_lead_only_coordinates_changes_no_childs_verdict_and_is_over_at_once(
    scratch, calls, mode, rules, route
):
    lead, *others = family(scratch, mode, rules, route)
    before = [judgements(member, calls) for member in (lead, *others)]
    hidden = [member.hidden_tools for member in (lead, *others)]
    lead.change_delegation(True)
    assert [judgements(member, calls) for member in others] == before[1:]
    assert [member.hidden_tools for member in (lead, *others)] == hidden
    assert (lead.display_mode, lead.mode) == (Mode.DELEGATE, mode)
    assert Mode.DELEGATE not in {member.display_mode for member in others} - {mode, *route}
    for (tool, access), was, now in zip(calls, before[0], judgements(lead, calls), strict=True):
        if tool in COORDINATION_TOOLS or (tool == "Agent" and access.starts_teammate):
            assert now == was
        else:
            assert (now[0].verdict, now[0].rule) == (DENY, "mode delegate")
    lead.change_delegation(False)
    assert [judgements(member, calls) for member in (lead, *others)] == before


@pytest.mark.promise("F45", "G6")
def test_a_member_that_was_delegated_to_edits_as_one_that_accepts_edits(scratch, calls):
    for rules in ({}, {"allow": ["Bash(npm test:*)"], "ask": ["Edit(src/**)"], "deny": ["WebFetch"]}):
        one, other = (scratch.policy(mode, **rules) for mode in (Mode.DELEGATE, Mode.ACCEPT_EDITS))
        for tool, access in calls:
            mine, theirs = one.decide(tool, access), other.decide(tool, access)
            assert (mine.verdict, mine.reason, mine.find_always()) == (
                theirs.verdict,
                theirs.reason,
                theirs.find_always(),
            )
            assert mine.rule.replace("delegate", "acceptEdits") == theirs.rule


@pytest.mark.promise("F45")
def test_who_gets_a_mode_of_its_own_in_life_has_the_rules_it_had_before(scratch):
    lead = scratch.policy(Mode.BYPASS, allow=["Bash(npm test:*)"], deny=["Bash(git push:*)"])
    member = Policy(Mode.BUBBLE, scope=scratch.scope).narrow_to(lead)
    test, push = (Access(command=command, cwd=scratch.project) for command in ("npm test", "git push"))
    member.change_mode(Mode.DEFAULT)
    assert member.decide("Bash", test).rule == "Bash(npm test:*) [allowing]"
    assert member.decide("Bash", push).verdict is DENY
    assert member.with_mode(Mode.ACCEPT_EDITS).decide("Bash", test).verdict is ALLOW
    member.change_mode(Mode.BUBBLE)
    assert member.decide("Bash", Access(command="make", cwd=scratch.project)).verdict is ALLOW


@pytest.mark.promise("G1", "G3")
def test_rules_of_one_without_a_mode_of_its_own_narrow_it_and_nothing_else(scratch):
    lead = scratch.policy(Mode.BYPASS)
    child = Policy(Mode.BUBBLE, scope=scratch.scope).narrow_to(lead)
    make, push = (Access(command=command, cwd=scratch.project) for command in ("make", "git push"))
    child.add_rules(*parse_rules(["Bash(git push:*)", "WebFetch"], DENY, "its own", scratch.project))
    assert child.decide("Bash", make).verdict is ALLOW
    assert child.decide("Bash", push).rule == "Bash(git push:*) [its own]"
    assert child.hides("WebFetch")
    assert child.hidden_tools == {"WebFetch"}
    assert lead.decide("Bash", push).verdict is ALLOW
    lead.change_mode(Mode.DONT_ASK)
    assert judge(child, "Bash", make) == judge(lead, "Bash", make)
    assert child.decide("mcp__x__y", Access()).rule == "mode dontAsk"
    child.add_rules(*parse_rules(["mcp__x"], ALLOW, "its own", scratch.project))
    assert child.decide("mcp__x__y", Access()).verdict is DENY
    lead.add_rules(*parse_rules(["mcp__x"], ALLOW, "later", scratch.project))
    assert child.decide("mcp__x__y", Access()).verdict is ALLOW


@pytest.mark.promise("G1")
def test_without_anybody_above_no_mode_is_the_default_one(scratch, calls):
    for rules in ({}, {"allow": ["Bash(npm test:*)"], "deny": ["WebFetch"]}):
        alone, default = scratch.policy(Mode.BUBBLE, **rules), scratch.policy(Mode.DEFAULT, **rules)
        assert judgements(alone, calls) == judgements(default, calls)
        assert (alone.display_mode, alone.hidden_tools) == (Mode.DEFAULT, default.hidden_tools)


# ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1", "F46")
@settings(max_examples=examples(60), deadline=None)
@given(rules=rule_lists, route=routes)
@pytest.mark.slow
def test_while_the_lead_plans_nobody_changes_anything_whatever_rules_allow(scratch, calls, rules, route):
    members = family(scratch, Mode.PLAN, rules, route)
    default = scratch.policy(Mode.DEFAULT)
    default.add_rules(*rules_of(scratch, rules))
    for member in members:
        for (tool, access), decision, usual in zip(
            calls, verdicts(member, calls), verdicts(default, calls), strict=True
        ):
            looks = access.harmless or tool in {"Read", "Grep", "WebFetch"}
            if access.writes or not (looks or access.command):
                assert decision.verdict is DENY
            elif member is members[0] and looks:
                assert (decision.verdict, decision.rule.replace("mode plan", "mode default")) == (
                    usual.verdict,
                    usual.rule,
                )
            assert decision.verdict is not ALLOW or access.command in {
                None,
                "ls",
                "git status",
                "cat link/secret",
                "cat .env",
            }


@pytest.mark.promise("G1")
def test_who_plans_may_write_its_plan_and_nothing_else_wherever_it_lies(scratch):
    plan, other = scratch.home / "plans" / "mine.md", scratch.home / "plans" / "theirs.md"
    lead = scratch.policy(Mode.DEFAULT)
    member = started_by(lead, Mode.PLAN, lead)
    below = started_by(member, Mode.BUBBLE, lead)
    member.allow_plan(plan)
    write = Access(writes=(plan,))
    for tool in ("Write", "Edit"):
        assert member.decide(tool, write).verdict is ALLOW
    assert member.decide("Read", Access(reads=(plan,))).verdict is ALLOW
    refused = [
        (member, "NotebookEdit", write),
        (member, "Write", Access(writes=(other,))),
        (member, "Write", Access(writes=(plan, other))),
        (member, "Write", Access(writes=(plan / "x",))),
        (member, "Write", Access(writes=(scratch.project / "a.py",))),
        (member, "Bash", Access(command=f"echo x > {plan}", cwd=scratch.project)),
        (member, "Read", Access(reads=(other,))),
        (below, "Write", write),
        (below, "Read", Access(reads=(plan,))),
        (lead, "Write", write),
    ]
    for policy, tool, access in refused:
        assert policy.decide(tool, access).verdict is DENY, (tool, access)
    member.change_mode(Mode.ACCEPT_EDITS)
    assert member.decide("Write", write).verdict is DENY
    assert member.decide("Read", Access(reads=(plan,))).verdict is ALLOW
    member.change_mode(Mode.PLAN)
    lead.add_rules(*parse_rules(["Edit(//**/plans/**)"], DENY, "later", scratch.project))
    assert member.decide("Write", write).rule == "Edit(//**/plans/**) [later]"


@pytest.mark.promise("G1", "P7")
def test_a_plan_that_became_a_link_is_not_the_plan(own_scratch):
    plans = own_scratch.project / "plans"
    plans.mkdir()
    policy = own_scratch.policy(Mode.PLAN)
    policy.allow_plan(plans / "mine.md")
    write = Access(writes=(plans / "mine.md",))
    assert policy.decide("Write", write).verdict is ALLOW
    (plans / "mine.md").symlink_to(own_scratch.project / "a.py")
    assert policy.decide("Write", write).verdict is DENY
    (plans / "mine.md").unlink()
    (plans / "back").symlink_to(plans)
    assert policy.decide("Write", Access(writes=(plans / "back" / "mine.md",))).verdict is ALLOW


@pytest.mark.promise("G1")
def test_a_refusal_while_planning_says_how_to_go_on(scratch):
    lead = scratch.policy(Mode.PLAN, allow=["Bash", "Edit"])
    lead.allow_plan(scratch.home / "plans" / "mine.md")
    child = started_by(lead, Mode.BUBBLE, lead)
    edit = Access(writes=(scratch.project / "a.py",))
    make = Access(command="make", cwd=scratch.project)
    for tool, access in (("Edit", edit), ("Bash", make), ("mcp__db__drop", Access())):
        mine, theirs = lead.decide(tool, access), child.decide(tool, access)
        assert str(lead.plan_file) in mine.reason
        assert "ExitPlanMode" in mine.reason
        assert "ExitPlanMode" not in theirs.reason  # it cannot leave a mode that is its caller's
        assert (theirs.verdict, theirs.rule) == (mine.verdict, mine.rule) == (DENY, "mode plan")


@pytest.mark.promise("G1")
def test_who_plans_behind_a_fence_is_told_how_to_go_on_all_the_same(scratch):
    lead = scratch.policy(Mode.PLAN)
    behind = Policy(Mode.BUBBLE).narrow_to(lead).narrow_to(scratch.policy(Mode.BYPASS))
    behind.allow_plan(scratch.home / "plans" / "mine.md")
    edit = Access(writes=(scratch.project / "a.py",))
    assert str(behind.plan_file) in behind.decide("Edit", edit).reason
    assert behind.decide("Write", Access(writes=(behind.plan_file,))).verdict is ALLOW
