"""The flags of a member's process: one table writes and reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.errors import UsageError
from teamwright.protocol.member_flags import MemberFlags, parse_argv, to_argv

word = st.text(min_size=1, max_size=12).filter(lambda text: not text.startswith("--"))
names = st.lists(word, max_size=3).map(tuple)


@pytest.mark.promise("E6")
@given(
    st.builds(
        MemberFlags, word, word, word, st.text(max_size=5).filter(lambda t: not t.startswith("--")), word,
        st.booleans(), word, st.booleans(), word, word, names, names,
    )
)  # fmt: skip
def test_what_is_written_is_read_back(flags):
    assert parse_argv(to_argv(flags)) == flags
    assert to_argv(flags)[0] == "--agent-id", "by which the program knows what it is"


@pytest.mark.promise("E6")
def test_the_flags_are_those_that_were_observed_and_no_others():
    flags = MemberFlags(
        "ann@crew", "ann", "crew", "blue", "s-1", True, "Explore", True, "plan", "m", ("Read",), ("Bash",)
    )
    said = [one for one in to_argv(flags) if one.startswith("--")]
    assert said == [
        "--agent-id", "--agent-name", "--team-name", "--agent-color", "--parent-session-id", "--plan-mode-required",
        "--agent-type", "--dangerously-skip-permissions", "--permission-mode", "--model", "--allowedTools",
        "--disallowedTools",
    ]  # fmt: skip


@pytest.mark.promise("E6")
def test_who_observed_flags_with_an_equals_sign_is_understood_too():
    assert parse_argv(["--agent-id=a@t", "--agent-name=a", "--team-name=t"]) == MemberFlags("a@t", "a", "t")


@pytest.mark.promise("E6")
@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["--agent-id", "a@t", "--agent-name", "a"], "--team-name must be said"),
        (["--agent-id"], "--agent-id needs a value"),
        (["--agent-id", "--agent-name", "a"], "--agent-id needs a value"),
        (["--agent-id", "a@t", "--agent-id", "b@t"], "said twice"),
        (["--agent-id", "a@t", "--sudo"], "no flag of a member"),
        (["--agent-id", "a@t", "word"], "no flag of a member"),
    ],
)
def test_flags_that_say_nothing_clear_are_refused(argv, what):
    with pytest.raises(UsageError, match=what):
        parse_argv(argv)
