"""Where members may live: settings of the user alone, choices with a reason, places by kind."""

import json
import os
import re
import sys

import pytest

from teamwright import Team
from teamwright.backends.adapter_backend import AdapterBackend
from teamwright.backends.detached import DetachedBackend
from teamwright.backends.session_backends import BackendChoice
from teamwright.backends.settings import BackendSettings
from teamwright.backends.tmux import TmuxBackend
from teamwright.config.settings.settings import SettingFlags
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.teams.backend import Launch, Location
from teamwright.testing import ScriptedModel
from teamwright.views.doctor import DoctorSubject, find_problems
from tests.teams.backends.rig import needs_tmux

RECIPE = {"open": ["sh", "{argv}"], "alive": ["sh", "{mark}"], "close": ["sh", "{id}"]}
IN_TMUX = {"PATH": os.environ["PATH"], "TMUX": "/nonexistent/s,1,0", "TMUX_PANE": "%0"}


def places(settings, tmp_path, environ=None, **more):
    return BackendChoice(environ or {"PATH": os.defpath}, settings, logs=tmp_path / "members", **more)


@pytest.mark.promise("E4", "E5", "G2")
def test_settings_of_places_are_read_from_the_user_s_files_and_the_flag(repository):
    assert repository.settings().places == BackendSettings()
    members = {
        "backend": "mine",
        "pane_layout": "window",
        "lead_share": 0.5,
        "orphan_timeout_s": 5,
        "adapters": {"mine": RECIPE},
    }
    repository.user({"members": members})
    found = repository.settings()
    assert (found.places.backend, found.places.layout, found.places.lead_share) == ("mine", "window", 0.5)
    assert (found.places.orphan_timeout_s, found.places.adapters["mine"].open) == (5, ("sh", "{argv}"))
    assert found.warnings == ()
    flagged = repository.settings(SettingFlags(backend="detached"))
    assert (flagged.places.backend, flagged.origins["members.backend"]) == ("detached", "--backend")


@pytest.mark.promise("E4", "G2")
@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    "place", [".teamwright/settings.json", ".claude/settings.json", ".teamwright/settings.local.json"]
)
def test_no_repository_says_where_members_run_or_what_runs_for_them_trusted_or_not(repository, place, trusted):
    members = {
        "backend": "mine",
        "pane_layout": "window",
        "lead_share": 0.5,
        "orphan_timeout_s": 1,
        "adapters": {"mine": RECIPE},
    }
    repository.write(place, {"members": members})
    if trusted:
        repository.trust()
    found = repository.settings()
    assert found.places == BackendSettings()
    assert sum("is taken from your own settings only" in warning for warning in found.warnings) == (5 if trusted else 0)
    assert not [entry for entry in repository.state().needs_asking if "members" in str(entry)]


@pytest.mark.promise("E4", "F33")
@pytest.mark.parametrize(
    ("members", "where", "why"),
    [
        ({"backend": "tmxu"}, "members.backend", "'tmxu' is no backend for members; did you mean tmux?"),
        ({"backend": 3}, "members.backend", "must be a text"),
        ({"pane_layout": "tabs"}, "line 1, members.pane_layout", "must be split or window"),
        ({"lead_share": 1}, "members.lead_share", "from 0.1 to 0.95"),
        ({"lead_share": None}, "members.lead_share", "from 0.1 to 0.95"),
        ({"orphan_timeout_s": 0}, "members.orphan_timeout_s", "above 0"),
        ({"adapters": []}, "members.adapters", "must be an object"),
        ({"adapters": {"mine": {}}}, "members.adapters.mine.open", "an adapter needs open"),
        ({"adapters": {"mine": {**RECIPE, "open": "sh"}}}, "members.adapters.mine.open", "not a line for a shell"),
        ({"adapters": {"mine": {**RECIPE, "clos": []}}}, "members.adapters.mine.clos", "did you mean close?"),
        ({"adapters": {"tmux": RECIPE}}, "members.adapters.tmux", "is a backend already"),
    ],
)
def test_settings_that_cannot_be_used_stop_the_start_with_file_key_and_what_to_do(repository, members, where, why):
    repository.user({"members": members})
    with pytest.raises(CannotStart) as raised:
        repository.settings()
    shown = raised.value.render()
    assert raised.value.slug == "bad-settings"
    assert str(repository.home.settings) in shown
    assert where in shown
    assert why in shown, shown


@pytest.mark.promise("F33")
def test_a_flag_with_a_name_that_nothing_has_is_told_with_the_nearest(repository):
    with pytest.raises(UsageError, match="'kity' is no backend") as raised:
        repository.settings(SettingFlags(backend="kity"))
    assert raised.value.do == ("did you mean kitty?",)


@pytest.mark.promise("E5", "F33")
async def test_auto_looks_for_nothing_where_nobody_sits_and_says_why(tmp_path):
    made = places(BackendSettings(), tmp_path, IN_TMUX)
    assert made.choice_reason == ""
    assert await made.choose() is None
    assert made.choice_reason == "the lead has no terminal"
    made = places(BackendSettings(), tmp_path, at_terminal=True)
    assert await made.choose() is None
    assert made.choice_reason == "this terminal is not in tmux"
    made = places(BackendSettings(), tmp_path, {**IN_TMUX, "PATH": str(tmp_path)}, at_terminal=True)
    assert await made.choose() is None
    assert made.choice_reason == "tmux is not installed (no tmux in PATH)"


@pytest.mark.promise("E5", "F33")
async def test_what_is_named_is_used_or_refused_with_the_reason(repository, tmp_path):
    repository.user({"members": {"adapters": {"mine": {**RECIPE, "needs": ["MINE"]}}, "backend": "mine"}})
    settings = repository.settings().places
    made = places(settings, tmp_path, {"PATH": os.defpath, "MINE": "1"})
    assert isinstance((await made.choose())[1], AdapterBackend)
    assert (made.choice.backend, made.choice_reason) == ("mine", "it was asked for")
    kind, place = await made.choose("detached")
    assert (kind, isinstance(place, DetachedBackend)) == ("detached", True)
    assert (await made.choose("detached"))[1] is place
    assert await made.choose("in-process") is None
    with pytest.raises(CannotStart, match="MINE is not set") as raised:
        await places(settings, tmp_path).choose()
    assert raised.value.slug == "backend"
    with pytest.raises(CannotStart, match="no kitten in PATH"):
        await made.choose("kitty")
    with pytest.raises(UsageError, match="'nothing' is no backend"):
        await made.choose("nothing")


@pytest.mark.promise("E4", "P3")
async def test_what_was_started_earlier_finds_its_place_again(repository, tmp_path):
    repository.user({"members": {"adapters": {"mine": RECIPE}}})
    made = places(repository.settings().places, tmp_path, {"PATH": os.environ["PATH"]})
    assert isinstance(await made.backend_for(Location("detached", "7")), DetachedBackend)
    assert isinstance(await made.backend_for(Location("mine", "7")), AdapterBackend)
    assert isinstance(await made.backend_for(Location("kitty", "7")), AdapterBackend)
    assert await made.backend_for(Location("gone", "7")) is None
    found = await made.backend_for(Location("tmux", "%7"))
    assert isinstance(found, TmuxBackend) == ((await made.tmux()).problem == "")


async def test_output_of_members_without_a_terminal_goes_into_the_directory_that_was_named(tmp_path):
    made = places(BackendSettings(backend="detached"), tmp_path)
    _, place = await made.choose()
    argv = (sys.executable, "-I", "-S", "-c", "print('hello')")
    location = await place.open(Launch("ada", "docs", "7f3a", argv, {}, tmp_path))
    assert os.path.dirname(location.facts["log"]) == str(tmp_path / "members")
    assert json.loads(json.dumps(location.to_json()))["kind"] == "detached"
    await place.close(location)


def findings(repository, env, **more):
    found = find_problems(DoctorSubject(repository.home, repository.root, env, **more))
    return {one.label: one for one in found if one.section == "members"}


@pytest.mark.promise("E5", "F33")
def test_doctor_says_which_place_members_would_get_and_why(repository):
    found = findings(repository, {"PATH": os.environ["PATH"]})
    assert found["backend"].value == "in-process: members.backend is auto, and the lead has no terminal"
    found = findings(repository, {"PATH": os.environ["PATH"]}, at_terminal=True)
    assert found["backend"].value == "in-process: members.backend is auto, and this terminal is not in tmux"
    found = findings(repository, {**IN_TMUX, "PATH": str(repository.root)}, at_terminal=True)
    assert found["backend"].value.endswith("tmux is not installed (no tmux in PATH)")
    assert (found["tmux"].value, found["tmux"].verdict) == ("tmux is not installed (no tmux in PATH)", "note")


@pytest.mark.promise("E5", "F33")
@needs_tmux
def test_doctor_names_tmux_its_version_and_whether_this_terminal_is_in_it(repository):
    found = findings(repository, IN_TMUX, at_terminal=True)
    assert found["backend"].value == "tmux: members.backend is auto, and this terminal is in tmux"
    assert re.fullmatch(r"tmux \S+ at /\S+; this terminal is in it", found["tmux"].value)
    found = findings(repository, {"PATH": os.environ["PATH"]})
    assert found["tmux"].value.endswith("this terminal is not in it")


@pytest.mark.promise("E4", "E5", "F33")
def test_doctor_says_of_each_terminal_of_the_user_whether_it_can_be_used(repository, tmp_path):
    old = tmp_path / "bin" / "tmux"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho tmux 2.9\n")
    old.chmod(0o700)
    adapters = {"mine": RECIPE, "other": {**RECIPE, "open": ["no-such-terminal", "{argv}"]}}
    repository.user({"members": {"adapters": adapters, "backend": "other"}})
    found = findings(repository, {"PATH": f"{old.parent}:{os.defpath}"})
    assert "no-such-terminal" in found["backend"].value
    assert (found["backend"].verdict, found["other"].verdict) == ("problem", "note")
    assert "no no-such-terminal in PATH" in found["other"].value
    assert (found["mine"].value, found["mine"].do) == ("can be used (yours)", "to use it: teamwright --backend mine")
    assert "tmux 2.9 is too old: 3.2 or newer is needed" in found["tmux"].value
    assert "kitty" not in found


@pytest.mark.promise("E5", "F33")
@pytest.mark.finding("T12")
@pytest.mark.parametrize("said_by", ["option", "settings"])
async def test_a_named_backend_that_cannot_be_had_ends_the_start_before_a_model_is_called(tmp_path, said_by):
    model, home = ScriptedModel("ok"), tmp_path / "home"
    if said_by == "settings":
        home.mkdir()
        (home / "settings.json").write_text(json.dumps({"members": {"backend": "tmux"}}))
    more = {"backend": "tmux"} if said_by == "option" else {}
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    team = Team("crew", model=model, cwd=tmp_path, home=home, env=env, **more)
    with pytest.raises(CannotStart, match="tmux is not installed") as raised:
        async with team:
            pass
    assert raised.value.exit_code == 3
    assert "--backend in-process" in raised.value.render()
    assert model.requests == []
    assert not list(home.glob("teams/*"))
