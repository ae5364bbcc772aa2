"""Names at the border: what may be one, and what it becomes on disk."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol import ids
from teamwright.protocol.errors import InvalidName, TeamwrightError, UnknownMember
from teamwright.storage.paths import Home

TRAPS = (
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    "-rf",
    ".hidden",
    "~root",
    "a b",
    "x" * 65,
    "é",
    "日本",
    "a@b",
    "name\u202e",
)


@pytest.mark.promise("F64", "A5")
@pytest.mark.parametrize("text", TRAPS, ids=repr)
def test_what_is_not_a_plain_word_cannot_name_a_member(text):
    with pytest.raises(InvalidName) as caught:
        ids.member_name(text)
    assert caught.value.note == "nothing was created" and len(caught.value.what) < 200


@pytest.mark.promise("F64", "A5")
@pytest.mark.parametrize("text", ["team-lead", "LEAD", "system", "User", "task-list", "CON", "nul", "com1", "LPT9"])
def test_reserved_names_and_names_of_devices_are_refused_in_any_case(text):
    with pytest.raises(InvalidName, match="reserved"):
        ids.member_name(text)


@pytest.mark.promise("A5")
@pytest.mark.parametrize("text", ["a", "Ann_2-b", "0x", "x" * 64, "console", "leader"])
def test_plain_words_name_members_as_they_are(text):
    assert ids.member_name(text) == text


@pytest.mark.promise("F64")
@pytest.mark.parametrize(
    "text", ["..", "../x", "/etc", "a\0", "", "x" * 201, "CON", "con.txt", "-x", ".x", "a:b", "a\tb"]
)
def test_a_path_component_from_outside_cannot_leave_its_directory(text, tmp_path):
    home = Home.at(tmp_path)
    for use in (ids.directory_name, home.team, home.tasks, home.config, home.requests):
        with pytest.raises(InvalidName):
            use(text)


@pytest.mark.promise("F64", "A5")
@given(st.text(max_size=300))
@pytest.mark.slow
def test_whatever_passes_stays_inside(text):
    home = Home.at(Path("/nonexistent/home"))
    for make in (home.team, home.tasks):
        try:
            made = make(text)
        except InvalidName:
            continue
        assert made.parent.parent == home.shared and made.name == text and ".." not in made.parts


@pytest.mark.promise("F64")
def test_a_link_that_leads_out_of_the_root_is_refused(tmp_path):
    home = Home.at(tmp_path / "home")
    (tmp_path / "home" / "teams").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home" / "teams" / "demo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidName, match="leads out"):
        home.config("demo")


@pytest.mark.promise("A5")
@given(st.text(max_size=60))
def test_an_addressee_is_a_name_or_refused(text):
    try:
        name = ids.parse_recipient(text, None)
    except InvalidName:
        return
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name)


@pytest.mark.promise("A5")
def test_an_agent_id_loses_its_team_and_the_alias_becomes_the_lead():
    assert ids.parse_recipient("bob@My Team@x", None) == "bob" and ids.parse_recipient(" Lead ", ()) == "team-lead"


@pytest.mark.finding("P17")
def test_an_id_of_another_team_is_no_addressee_of_this_one():
    names = ("My Team", "my-team")
    assert [ids.parse_recipient(text, names) for text in ("bob", "bob@", "bob@my team", "bob@my-team")] == ["bob"] * 4
    for text in ("bob@other", "team-lead@other", "bob@My Team@x"):
        with pytest.raises(UnknownMember, match="another team") as caught:
            ids.parse_recipient(text, names)
        assert "write '" in caught.value.do[0] and ("this team", "My Team") in caught.value.looked_at
    assert ids.parse_agent_id("bob@a@b") == ("bob", "a@b") and ids.parse_agent_id("bob") == ("bob", "")
    assert ids.agent_id("bob", "My Team_1") == "bob@My Team_1"


@pytest.mark.promise("A1", "A5")
@pytest.mark.parametrize(
    ("name", "directory"),
    [("My Team_1", "my-team-1"), ("Ünï/../çødé x", "-n-------d--x"), ("UPPER_case.1", "upper-case-1"), ("日本", "--")],
)
def test_a_teams_directory_is_the_sanitised_name_as_observed(name, directory):
    assert ids.team_name(name) == name and ids.team_dir(name) == directory


@pytest.mark.promise("A5", "F64")
@pytest.mark.parametrize("text", ["", "   ", "x" * 101, "a\0b", "a\nb", "tab\there", "\u200b", "a\u202eb"])
def test_what_cannot_be_printed_cannot_name_a_team(text):
    with pytest.raises(InvalidName):
        ids.team_name(text)


def test_two_spellings_of_one_letter_are_one_team():
    assert ids.team_name("e\u0301") == ids.team_name("\u00e9")


@given(st.text(min_size=1, max_size=100))
def test_a_sanitised_directory_and_an_inbox_stem_have_no_odd_character(text):
    assert re.fullmatch(r"[a-z0-9-]+", ids.team_dir(text)) and re.fullmatch(r"[A-Za-z0-9_-]+", ids.inbox_stem(text))


@pytest.mark.promise("B1", "F64")
def test_a_tasks_number_is_decimal_without_leading_zeros():
    assert ids.task_id("#12") == ids.task_id(" 12 ") == "12"
    for bad in ("0", "01", "-1", "1.0", "1e3", "x", "", "../1", "12345678901", "١"):
        with pytest.raises(InvalidName):
            ids.task_id(bad)


@pytest.mark.promise("C4")
def test_ids_of_requests_have_the_observed_forms():
    assert ids.shutdown_id("alice", 1795215218534) == "shutdown-1795215218534@alice"
    assert ids.plan_id("pat", "t7", 1795215493406) == "plan_approval-1795215493406@pat@t7"
    assert re.fullmatch(r"perm-17-[a-z0-9]{7}", ids.request_id("perm", 17))
    assert re.fullmatch(r"a[0-9a-f]{6}", ids.run_id()) and re.fullmatch(r"b[0-9a-f]{6}", ids.job_id())
    assert len({ids.message_id() for _ in range(50)}) == 50


def test_a_session_id_is_a_uuid():
    made = ids.session_id()
    assert ids.session_id(made.upper()) == made
    for bad in ("../../etc", "1234", made + "0"):
        with pytest.raises(InvalidName):
            ids.session_id(bad)


def test_the_nearest_name_is_offered_in_its_own_spelling():
    assert ids.nearest("surveyer", ["Surveyor", "tester"]) == "Surveyor" and ids.nearest("zzz", ["ann"]) is None


def test_an_error_shows_what_was_looked_at_and_what_to_do_in_at_most_12_lines():
    error = TeamwrightError(
        "usage", "it cannot be", looked_at=[(f"place {n}", "x") for n in range(20)], do=["a", "b"], note="nothing"
    )
    lines = error.render().split("\n")
    assert len(lines) == 12 and lines[0] == "teamwright: it cannot be" and lines[-1] == "  [usage]  nothing"
    assert TeamwrightError("usage", "no", do=["a", "b"]).for_model() == "no\na Or: b"
