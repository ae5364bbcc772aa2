"""Slash commands that people know: what the session is, its agent types, rules, settings, and prompts by a name."""

import pytest

from tests.ui.test_terminal_session import all_told, at_terminal


@pytest.mark.finding("U8", "U10")
@pytest.mark.slow
def test_the_state_and_the_setup_of_a_session_are_shown_by_slash_commands(repo, tmp_path):
    home = tmp_path / "home"
    skill = home / ".claude" / "commands"
    skill.mkdir(parents=True)
    (skill / "status.md").write_text("Say how it stands.")
    with at_terminal(lambda _body: "Done.", repo, HOME=str(home)) as (person, server):
        person.says("/skills")
        person.sees("/status", "Say how it stands.")
        person.says("/agents")
        person.sees("type", "general-purpose")
        person.says("/agents show Explore")
        person.sees("Explore  used", "tools")
        person.says("/permissions")
        person.sees("mode       default", "/permissions check")
        person.says("/config get permissions.defaultMode")
        person.sees("/config get permissions.defaultMode\n  default\n")
        person.says("/config set 'x")
        person.sees("/config: a quote is not closed")
        person.says("/plan")
        person.until(lambda rows: any("· plan ·" in row for row in rows[-6:]))
        assert server.bodies == []
        person.says("/status")
        person.sees("Done.")
        assert "Say how it stands." in all_told(server.bodies[-1]), "the person's own command wins"
        person.says("/review the parser")
        person.sees("> /review the parser", "\nDone.")
        assert "not committed" in all_told(server.bodies[-1]) and "the parser" in all_told(server.bodies[-1])
        person.says("/exit")
        assert person.leaves() == 0


@pytest.mark.finding("U8")
@pytest.mark.slow
def test_status_is_the_session_on_one_page(repo, tmp_path):
    with at_terminal(lambda _body: "Done.", repo, "--sandbox", "off", HOME=str(tmp_path / "home")) as (person, server):
        person.says("/status")
        person.sees(
            "  session ", f"{repo.name}\n", "  model ", "mode default", "  no team\n", "lead", "  no tasks\n", "all"
        )
        person.sees("  sandbox none: nothing is enforced: sandbox.mode is off")
        person.says("/doctor")
        person.sees("machine", "python")
        assert server.bodies == []


@pytest.mark.finding("U8")
def test_permissions_and_doctor_show_this_session_with_its_flags(repo, tmp_path):
    flags = ("--allowed-tools", "Bash(touch:*)", "--permission-mode", "acceptEdits")
    with at_terminal(lambda _body: "Done.", repo, *flags, HOME=str(tmp_path / "home")) as (person, server):
        person.says("/permissions")
        person.sees("mode       acceptEdits", "allow      Bash(touch:*)  --allowedTools")
        person.says("/mode plan")
        person.until(lambda rows: any("· plan ·" in row for row in rows[-6:]))
        person.says("/permissions")
        person.sees("mode       plan")
        person.says("/permissions check Bash(touch x)")
        person.sees("DENY  Bash(touch x)", "mode plan")
        person.says("/permissions chek Bash(touch x)")
        person.sees("/permissions chek Bash(touch x): it takes no word, or check and a call")
        person.says("/doctor")
        person.sees("named by --model", "backend")
        assert "the lead has no terminal" not in person.screen.text
        assert server.bodies == []
