"""The roster file."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.errors import StorageError
from teamwright.protocol.members import RosterMember, TeamConfig, parse_config

GOLDEN = Path(__file__).parent.parent / "golden"

LEAD_KEYS = ["agentId", "name", "agentType", "model", "joinedAt", "tmuxPaneId", "cwd", "subscriptions"]
MEMBER_KEYS = [
    *["agentId", "name", "agentType", "model", "prompt", "color", "planModeRequired", "joinedAt", "tmuxPaneId", "cwd"],
    *["subscriptions", "backendType"],
]

LEAD = RosterMember(
    "team-lead@My Team_1", "team-lead", agent_type="boss", model="m-1", joined_at=1795214651656, cwd="/repo"
)
ALICE = RosterMember(
    "alice@My Team_1",
    "alice",
    model="m-2",
    prompt="look",
    color="blue",
    plan_mode_required=False,
    joined_at=1795214741865,
    pane_id="in-process",
    cwd="/repo",
    backend_type="in-process",
)
TEAM = TeamConfig("My Team_1", LEAD.agent_id, "50101e6d", 1795214651656, "a team", (LEAD, ALICE))


@pytest.mark.promise("A3")
def test_a_roster_is_written_as_the_golden_file():
    assert TEAM.encode() == (GOLDEN / "config_v1.json").read_bytes()
    assert parse_config((GOLDEN / "config_v1.json").read_bytes()) == TEAM


@pytest.mark.promise("A3")
def test_the_lead_has_8_keys_a_teammate_12_and_three_more_when_known():
    assert list(LEAD.to_json()) == LEAD_KEYS and list(ALICE.to_json()) == MEMBER_KEYS
    pane = parse_config(TEAM.encode()).find("ALICE")
    more = {**pane.to_json(), "worktreePath": "/w", "mode": "plan", "isActive": True}
    raw = {**json.loads(TEAM.encode()), "members": [more]}
    assert list(parse_config(json.dumps(raw).encode()).members[0].to_json()) == [
        *MEMBER_KEYS,
        "worktreePath",
        "mode",
        "isActive",
    ]


@pytest.mark.promise("A3")
def test_keys_of_others_stay_at_the_top_and_in_entries():
    raw = json.loads(TEAM.encode()) | {"leadProcess": {"pid": 7}, "hiddenPaneIds": ["%3"]}
    raw["members"][1]["theirs"] = [1]
    again = parse_config(json.dumps(raw).encode())
    assert json.loads(again.encode()) == raw and again.hidden_pane_ids == ("%3",)


@pytest.mark.promise("A5")
def test_members_are_found_in_any_case_and_replaced_in_their_place():
    bob = RosterMember("bob@t", "bob")
    team = TEAM.with_member(bob).with_member(RosterMember("ALICE@t", "ALICE", model="new"))
    assert [m.name for m in team.members] == ["team-lead", "ALICE", "bob"]
    assert [m.name for m in team.without_member("alice").without_member("BOB@t").members] == ["team-lead"]
    assert [m.name for m in TEAM.teammates] == ["alice"]


@pytest.mark.promise("F26")
@given(st.binary(max_size=40) | st.integers(0, 400).map(lambda n: TEAM.encode()[:n]))
def test_what_is_cut_or_strange_is_damaged_and_never_an_empty_team(raw):
    with pytest.raises(StorageError) as caught:
        parse_config(raw)
    assert caught.value.slug == "damaged-file"


@pytest.mark.parametrize("members", [[{}], [{"name": "x"}], [[]], 5, None])
def test_a_broken_entry_is_damage(members):
    with pytest.raises(StorageError):
        parse_config(json.dumps(json.loads(TEAM.encode()) | {"members": members}).encode())
