"""What a hook said: exit codes, JSON, and what several of them come to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.hooks.hook_definitions import EVENTS
from teamwright.hooks.hook_outcome import (
    MAX_TEXT,
    NO_OUTCOME,
    HookOutcome,
    PermissionReply,
    merge_outcomes,
    read_outcome,
)


def said(event: str, **value: object) -> HookOutcome:
    return read_outcome(event, 0, json.dumps(value), "")


def own(event: str, **value: object) -> HookOutcome:
    return said(event, hookSpecificOutput={"hookEventName": event, **value})


@pytest.mark.promise("G7")
def test_exit_2_refuses_with_what_stands_on_stderr_whatever_is_on_stdout():
    outcome = read_outcome("PreToolUse", 2, '{"decision":"approve"}', "not on main\n")
    assert (outcome.blocked, outcome.reason, outcome.permission) == (True, "not on main", "deny")
    assert read_outcome("Stop", 2, "", "").reason
    assert read_outcome("PermissionRequest", 2, "", "no").answer == PermissionReply(False, "no")


@pytest.mark.promise("G7")
@pytest.mark.parametrize("code", [1, 3, 126, 127, -9])
def test_any_other_code_is_trouble_and_counts_for_nothing(code):
    outcome = read_outcome("PreToolUse", code, '{"decision":"block"}', "no such file\nmore")
    assert outcome == HookOutcome(problem=f"exit code {code}: no such file")


@pytest.mark.promise("G7")
def test_plain_text_is_context_for_the_two_events_that_take_it():
    assert read_outcome("SessionStart", 0, "today is Monday\n", "").contexts == ("today is Monday",)
    assert read_outcome("UserPromptSubmit", 0, "be brief", "").contexts == ("be brief",)
    assert read_outcome("Stop", 0, "be brief", "") == NO_OUTCOME


@pytest.mark.promise("G7")
def test_a_tool_call_is_allowed_asked_or_denied_and_may_have_another_input():
    outcome = own("PreToolUse", permissionDecision="ask", permissionDecisionReason="new host", updatedInput={"a": 1})
    assert (outcome.permission, outcome.permission_reason, outcome.input) == ("ask", "new host", {"a": 1})
    assert not outcome.blocked
    assert own("PreToolUse", permissionDecision="deny", permissionDecisionReason="no").reason == "no"
    assert said("PreToolUse", decision="block", reason="no").permission == "deny"
    assert said("PreToolUse", decision="approve").permission == "allow"


@pytest.mark.promise("G7", "G4")
def test_a_permission_request_is_answered_with_input_and_grants():
    update = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    decision = {"behavior": "allow", "updatedInput": {"command": "ls"}, "updatedPermissions": [update, 3]}
    assert own("PermissionRequest", decision=decision).answer == PermissionReply(True, "", {"command": "ls"}, (update,))
    assert own("PermissionRequest", decision={"behavior": "deny", "message": "no"}).answer == PermissionReply(
        False, "no"
    )
    assert own("PermissionRequest", decision={"behavior": "perhaps"}).answer is None
    assert own("PermissionRequest").answer is None


@pytest.mark.promise("G7")
def test_the_common_keys_are_read_for_every_event():
    for event in EVENTS:
        outcome = said(event, **{"continue": False, "stopReason": "enough", "systemMessage": "hello"})
        assert (outcome.halted, outcome.halt_reason, outcome.messages) == (True, "enough", ("hello",))
        assert said(event, decision="block", reason="why").reason == "why"
        assert own(event, additionalContext="mind this").contexts == ("mind this",)
        assert said(event, suppressOutput=True) == NO_OUTCOME


@pytest.mark.promise("G7")
def test_of_several_the_stricter_holds_and_contexts_are_joined_in_order():
    allow, ask = own("PreToolUse", permissionDecision="allow"), own("PreToolUse", permissionDecision="ask")
    deny = own("PreToolUse", permissionDecision="deny", permissionDecisionReason="no", additionalContext="two")
    first = own("PreToolUse", additionalContext="one", updatedInput={"a": 1})
    assert merge_outcomes([allow, ask]).permission == "ask"
    whole = merge_outcomes([first, allow, deny, ask])
    assert (whole.permission, whole.permission_reason, whole.blocked) == ("deny", "no", True)
    assert (whole.contexts, whole.input) == (("one", "two"), {"a": 1})
    no = HookOutcome(answer=PermissionReply(False, "no"))
    assert merge_outcomes([HookOutcome(answer=PermissionReply(True)), no]).answer == PermissionReply(False, "no")


def test_a_long_text_is_cut_and_says_so():
    context = own("Stop", additionalContext="x" * (MAX_TEXT + 1)).contexts[0]
    assert context.endswith(f"[… {MAX_TEXT + 1:,} characters in all]")


@pytest.mark.promise("G7", "P7")
@pytest.mark.parametrize("text", ["{", '{"a"', "[1]", "{" * 100_000, '{"hookSpecificOutput": {"hookEventName": 3}}'])
def test_garbage_is_never_more_than_a_warning(text):
    outcome = read_outcome("PreToolUse", 0, text, "")
    assert not (outcome.blocked or outcome.halted or outcome.permission)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)
KEYS = st.sampled_from(["decision", "reason", "continue", "stopReason", "systemMessage", "hookSpecificOutput"])
INNER = st.sampled_from(["hookEventName", "permissionDecision", "updatedInput", "additionalContext", "decision"])


@pytest.mark.promise("G7", "P7")
@given(
    st.sampled_from(sorted(EVENTS)),
    st.dictionaries(KEYS, JSON | st.dictionaries(INNER, JSON | st.dictionaries(st.just("behavior"), JSON))),
    st.integers(-20, 20),
)
@pytest.mark.slow
def test_no_output_of_a_hook_raises(event, value, code):
    merge_outcomes([read_outcome(event, code, json.dumps(value), "x"), NO_OUTCOME])
