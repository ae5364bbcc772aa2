"""Which place members get: what is named is used or refused, and `auto` says why."""

import pytest

from teamwright.backends.choice import BackendEnvironment, SelectedBackend, choose_backend
from teamwright.protocol.errors import CannotStart, UsageError

IN_TMUX = {"TMUX": "/tmp/tmux-0/default,1,0", "TMUX_PANE": "%0"}
TOO_OLD = "tmux 2.9 is too old: 3.2 or newer is needed"


@pytest.mark.promise("E5", "F33")
@pytest.mark.parametrize(
    ("found", "choice"),
    [
        (BackendEnvironment(IN_TMUX, at_terminal=True), SelectedBackend("tmux", "this terminal is in tmux")),
        (BackendEnvironment(IN_TMUX, at_terminal=False), SelectedBackend("in-process", "the lead has no terminal")),
        (BackendEnvironment({}, at_terminal=True), SelectedBackend("in-process", "this terminal is not in tmux")),
        (
            BackendEnvironment({"TMUX": "x,1,0"}, at_terminal=True),
            SelectedBackend("in-process", "this terminal is not in tmux"),
        ),
        (BackendEnvironment(IN_TMUX, at_terminal=True, tmux_problem=TOO_OLD), SelectedBackend("in-process", TOO_OLD)),
        (
            BackendEnvironment({}, at_terminal=False, adapter_problems={"kitty": ""}),
            SelectedBackend("in-process", "the lead has no terminal"),
        ),
    ],
)
def test_auto_takes_panes_only_where_a_person_sits_in_tmux_and_says_why(found, choice):
    assert choose_backend("auto", found) == choice


@pytest.mark.promise("E5", "F33")
@pytest.mark.parametrize("at_terminal", [True, False])
@pytest.mark.parametrize("environ", [{}, IN_TMUX])
@pytest.mark.parametrize("named", ["in-process", "tmux", "kitty"])
def test_what_is_named_is_used_wherever_the_lead_is(named, environ, at_terminal):
    found = BackendEnvironment(environ, at_terminal=at_terminal, adapter_problems={"kitty": ""})
    assert choose_backend(named, found) == SelectedBackend(named, "it was asked for")


@pytest.mark.promise("E5", "F33")
@pytest.mark.parametrize("named", ["tmux", "kitty"])
def test_what_is_named_and_cannot_be_used_is_refused_with_the_reason(named):
    found = BackendEnvironment(IN_TMUX, at_terminal=True, tmux_problem=TOO_OLD, adapter_problems={"kitty": TOO_OLD})
    with pytest.raises(CannotStart, match=r"2\.9 is too old") as raised:
        choose_backend(named, found)
    assert raised.value.slug == "backend"
    assert choose_backend("in-process", found).backend == "in-process"


def test_a_name_that_nothing_has_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="'tmxu' is no backend") as raised:
        choose_backend("tmxu", BackendEnvironment(adapter_problems={"kitty": ""}))
    assert raised.value.do == ("did you mean tmux?",)
    assert raised.value.looked_at == (("backends", "auto, in-process, tmux, kitty"),)
