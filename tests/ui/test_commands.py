"""Commands and skills through the real program, headless and at a terminal; hostile ones are never used."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.program import Program, error_of, told_results, words_of
from tests.ui.test_terminal_session import at_terminal

REVIEW = """---
description: Reviews a branch
argument-hint: "[branch]"
allowed-tools: Bash(echo:*)
---
Review $1 ($ARGUMENTS).
!`echo seen-$1`
Rules: @main.py and @/etc/hostname
"""


@pytest.fixture
def mine(tmp_path) -> Path:
    return tmp_path / "home"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run(repo: Path, home: Path, *args: str, answers=None, **more):
    with LoopbackModel.in_thread(answers or ["Hello."]) as server:
        done = Program(repo, home, server.url).run(*args, **more)
        return done, server.bodies


@pytest.mark.promise("H4", "K8")
@pytest.mark.slow
def test_a_command_is_told_with_arguments_output_and_files(repo, mine):
    put(mine / "commands" / "review.md", REVIEW)
    done, bodies = run(repo, mine, "-p", "/review topic now", stdin="from a pipe\n")
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    *blocks, _ = [block["text"] for block in bodies[0]["messages"][0]["content"]]
    assert blocks[0] == "from a pipe"
    assert blocks[1] == "Review topic (topic now).\nseen-topic\nRules: @main.py and @/etc/hostname"
    assert "print('hello')" in blocks[2]
    assert blocks[3] == "[@/etc/hostname was not attached: the lead may not read it without a question]"
    assert len(bodies) == 1


@pytest.mark.promise("H4", "G2")
@pytest.mark.slow
def test_a_shell_line_goes_by_the_rules_and_a_refused_one_ends_the_command(repo, mine):
    put(mine / "commands" / "touch.md", "!`touch made-by-a-command`\nGo on.")
    done, bodies = run(repo, mine, "-p", "/touch")
    slug, lines = error_of(done)
    assert (done.returncode, slug, bodies) == (2, "usage", [])
    assert "a shell line of /touch was not allowed" in lines[0]
    assert "would allow it" in done.stderr
    assert not (repo / "made-by-a-command").exists()
    done, bodies = run(repo, mine, "-p", "/touch", "--allowedTools", "Bash(touch:*)")
    assert done.returncode == 0, done.stderr
    assert (repo / "made-by-a-command").exists()
    put(mine / "commands" / "touch.md", "---\nallowed-tools: Bash(touch:*)\n---\n!`touch again`\nGo on.")
    (repo / "made-by-a-command").unlink()
    done, bodies = run(repo, mine, "-p", "/touch", "--disallowedTools", "Bash(touch:*)")
    assert (done.returncode, bodies) == (2, []), "what a command allows lifts no deny"
    assert not (repo / "again").exists()


@pytest.mark.promise("H4", "G3")
@pytest.mark.slow
def test_what_a_command_allows_holds_for_its_turn_and_for_nobody_else(repo, mine):
    put(mine / "commands" / "make.md", "---\nallowed-tools: Write(made/**)\n---\nMake $1.")
    write = ("Write", {"file_path": "made/a.txt", "content": "x"})
    other = ("Write", {"file_path": "elsewhere.txt", "content": "x"})
    sub = ("Agent", {"description": "write it", "prompt": "as a sub-agent"})

    def play(body):
        text = json.dumps(body["messages"])
        if "as a sub-agent" in words_of(body) and "Make it." not in text:
            return (
                Answer(tools=[("Write", {"file_path": "made/b.txt", "content": "x"})])
                if len(body["messages"]) == 1
                else "no"
            )
        return Answer(tools=[write, other, sub]) if len(body["messages"]) == 1 else "Done."

    done, _ = run(repo, mine, "-p", "/make it.", "--output-format", "json", answers=play)
    assert done.returncode == 0, done.stderr
    assert (repo / "made" / "a.txt").exists()
    assert not (repo / "elsewhere.txt").exists()
    assert not (repo / "made" / "b.txt").exists()
    denied = [one["tool_input"]["file_path"] for one in json.loads(done.stdout)["permission_denials"]]
    assert sorted(denied) == ["elsewhere.txt", "made/b.txt"]
    done, _ = run(
        repo,
        mine,
        "-c",
        "-p",
        "once more",
        answers=[Answer(tools=[("Write", {"file_path": "made/c.txt", "content": "x"})]), "Done."],
    )
    assert done.returncode == 0, done.stderr
    assert not (repo / "made" / "c.txt").exists(), "the turn is over"


@pytest.mark.promise("H4", "row F6")
def test_a_command_that_forks_runs_in_a_sub_agent_with_what_it_allows(repo, mine):
    head = "---\ncontext: fork\nallowed-tools: Write(made/**)\n---\n"
    put(mine / "commands" / "fork.md", f"{head}Make $1.\n!`echo seen`")
    answers = [Answer(tools=[("Write", {"file_path": "made/a.txt", "content": "x"})]), "Made it."]
    done, bodies = run(repo, mine, "-p", "/fork it", answers=answers)
    assert (done.returncode, done.stdout) == (0, "Made it.\n"), done.stderr
    assert (repo / "made" / "a.txt").exists()
    assert words_of(bodies[0]).startswith("Make it.\nseen")
    assert not any(tool["name"] == "Agent" for tool in bodies[0]["tools"])
    assert list(mine.glob("projects/*/*/agents/*.jsonl"))


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    ("head", "code", "said"),
    [
        ("context: fork\nagent: nobody", 2, "correct `agent` there, or leave it out"),
        ("model: nope/x", 3, "write provider/model, or an alias"),
    ],
)
def test_a_command_that_asks_for_what_is_not_there_names_its_file(repo, mine, head, code, said):
    file = put(mine / "commands" / "odd.md", f"---\n{head}\n---\nGo on.\n")
    done, bodies = run(repo, mine, "-p", "/odd")
    assert (done.returncode, bodies) == (code, [])
    assert said in done.stderr and f"/odd, {file}" in done.stderr and "subagent_type" not in done.stderr


@pytest.mark.promise("H4")
@pytest.mark.parametrize("prompt", ["/reviw x", "/nothing-like-it"])
def test_an_unknown_command_is_an_error_with_the_nearest(repo, mine, prompt):
    put(mine / "commands" / "review.md", REVIEW)
    done, bodies = run(repo, mine, "-p", prompt)
    slug, lines = error_of(done)
    assert (done.returncode, slug, bodies) == (2, "usage", [])
    assert ("did you mean /review?" in done.stderr) == (prompt == "/reviw x")
    assert "/review" in "\n".join(lines)


@pytest.mark.promise("H4", "K8")
@pytest.mark.parametrize(
    ("args", "stdin"), [(("-p",), "/review x\n"), (("-p", "/etc/hosts is what?"), None), (("-p", "see /review"), None)]
)
@pytest.mark.slow_after(1)
def test_piped_words_paths_and_mentions_call_nothing(repo, mine, args, stdin):
    put(mine / "commands" / "review.md", REVIEW)
    done, bodies = run(repo, mine, *args, **({} if stdin is None else {"stdin": stdin}))
    assert done.returncode == 0, done.stderr
    assert words_of(bodies[0]) == (stdin or args[1]).strip()


@pytest.mark.promise("H4", "F59")
def test_arguments_that_a_shell_would_read_end_the_command(repo, mine):
    put(mine / "commands" / "log.md", "---\nallowed-tools: Bash\n---\n!`echo $ARGUMENTS`")
    done, bodies = run(repo, mine, "-p", "/log x; touch owned")
    assert (done.returncode, bodies) == (2, [])
    assert "plain words only" in done.stderr
    assert not (repo / "owned").exists()


# ── skills ───────────────────────────────────────────────────────────────────────────────────────────────────────

SKILL = """---
name: notes
description: Writes release notes. Use it for changelogs.
---
Read the log of $ARGUMENTS first. !`touch owned`
"""


@pytest.mark.promise("H4")
def test_agents_know_a_line_of_a_skill_and_read_the_rest_on_demand(repo, mine):
    put(mine / "skills" / "notes" / "SKILL.md", SKILL)
    put(mine / "skills" / "notes" / "refs" / "style.md", "Short lines.")
    put(mine / "secret.txt", "a secret")
    os.symlink(mine / "secret.txt", mine / "skills" / "notes" / "out.md")
    calls = [("Skill", {"skill": "notes", "args": "v2"}), ("Skill", {"skill": "notes", "file": "refs/style.md"})]
    calls += [("Skill", {"skill": "notes", "file": "out.md"}), ("Skill", {"skill": "note"})]
    done, bodies = run(repo, mine, "-p", "hi", answers=[Answer(tools=calls), "Done."])
    assert done.returncode == 0, done.stderr
    [tool] = [tool for tool in bodies[0]["tools"] if tool["name"] == "Skill"]
    assert "- notes: Writes release notes. Use it for changelogs." in tool["description"]
    assert "Read the log" not in json.dumps(bodies[0])
    text, file, out, unknown = told_results(bodies[1])
    assert "Read the log of v2 first. !`touch owned`" in text["text"]
    assert "refs/style.md" in text["text"]
    assert file["text"] == "Short lines."
    assert (out["is_error"], unknown["is_error"]) == (True, True)
    assert "did you mean notes?" in unknown["text"]
    assert "a secret" not in json.dumps(bodies)
    assert not (repo / "owned").exists()


@pytest.mark.promise("H4")
def test_without_skills_no_agent_hears_of_them(repo, mine):
    _, bodies = run(repo, mine, "-p", "hi")
    assert "kill:" not in json.dumps(bodies[0]["tools"])
    assert not [tool for tool in bodies[0]["tools"] if tool["name"] == "Skill"]


@pytest.mark.promise("H4", "row F6", "F59")
@pytest.mark.slow
def test_a_skill_that_forks_answers_from_a_sub_agent_and_rules_about_agents_hold(repo, mine):
    put(
        mine / "skills" / "look" / "SKILL.md",
        "---\nname: look\ndescription: Looks.\ncontext: fork\nagent: Explore\n---\nLook at $1.",
    )

    def play(body):
        if words_of(body).startswith("Look at it."):
            return "A look."
        return Answer(tools=[("Skill", {"skill": "look", "args": "it"})]) if len(body["messages"]) == 1 else "Done."

    done, bodies = run(repo, mine, "-p", "hi", answers=play)
    assert done.returncode == 0, done.stderr
    assert "A look." in told_results(bodies[-1])[0]["text"]
    done, bodies = run(repo, mine, "-p", "hi", "--disallowedTools", "Agent", answers=play)
    assert done.returncode == 0, done.stderr
    assert len(bodies) == 2, "no sub-agent: the text is read"
    assert "Look at it." in told_results(bodies[-1])[0]["text"]


@pytest.mark.slow
@pytest.mark.promise("H4", "K1")
def test_an_untrusted_repository_brings_no_skill_and_no_command_and_its_lines_never_run(repo, mine):
    put(repo / ".claude" / "skills" / "notes" / "SKILL.md", SKILL)
    put(repo / ".claude" / "commands" / "go.md", "---\nallowed-tools: Bash\n---\n!`touch owned`")
    done, bodies = run(repo, mine, "-p", "hi")
    assert not [tool for tool in bodies[0]["tools"] if tool["name"] == "Skill"]
    assert "2 of its entries are left out" in done.stderr
    for prompt in ("/go", "/notes"):
        done, bodies = run(repo, mine, "-p", prompt)
        assert (done.returncode, bodies) == (2, [])
    assert not (repo / "owned").exists()
    given = Program(repo, mine).run("trust", "--yes")
    assert "runs: touch owned; allows: Bash" in given.stdout
    put(repo / ".claude" / "commands" / "go.md", "---\nallowed-tools: Bash\n---\n!`touch owned`\nGo on.")
    done, bodies = run(repo, mine, "-p", "/go")
    assert (done.returncode, bodies) == (2, []), "it was changed since"
    assert not (repo / "owned").exists()
    done, bodies = run(repo, mine, "-p", "/go", "--trust")
    assert done.returncode == 0, done.stderr
    assert (repo / "owned").exists()


@pytest.mark.promise("H4", "K1", "K9")
@pytest.mark.finding("C3")
@pytest.mark.slow
def test_a_command_of_a_trusted_repository_answers_for_the_git_command_that_it_names_and_for_no_other(repo, mine):
    text = "---\nallowed-tools: Bash({})\n---\n!`git rm -q --cached main.py`\nGo on."
    for rule in ("git:*", "git commit:*", "*"):
        put(repo / ".claude" / "commands" / "drop.md", text.format(rule))
        done, bodies = run(repo, mine, "-p", "/drop", "--trust")
        assert (done.returncode, bodies) == (2, []), rule
        assert f"permissions.allow of {mine}/settings.json would allow it" in " ".join(done.stderr.split())
    put(repo / ".claude" / "commands" / "drop.md", text.format("git rm:*"))
    done, bodies = run(repo, mine, "-p", "/drop")
    assert (done.returncode, bodies) == (2, []), "nobody trusted it"
    done, bodies = run(repo, mine, "-p", "/drop", "--trust")
    assert done.returncode == 0, done.stderr
    assert "main.py" not in subprocess.run(["git", "ls-files"], cwd=repo, capture_output=True, text=True).stdout


@pytest.mark.finding("C3")
@pytest.mark.parametrize(("trust", "added"), [(["--trust"], True), ([], False)])
@pytest.mark.slow_after(1)
def test_an_allow_rule_of_a_trusted_repository_lets_an_agent_commit_and_a_refusal_names_the_file_that_counts(
    repo, mine, trust, added
):
    put(repo / ".claude" / "settings.json", json.dumps({"permissions": {"allow": ["Bash(git commit:*)"]}}))
    line = "git commit -q --allow-empty -m second"
    answers = [Answer(tools=[("Bash", {"command": line, "description": "commits"})]), "Done."]
    who = {"GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@example.org"}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    with LoopbackModel.in_thread(answers) as server:
        done = Program(repo, mine, server.url, env=who).run("-p", "commit it", *trust)
    assert done.returncode == 0, done.stderr
    log = subprocess.run(["git", "log", "--format=%s"], cwd=repo, capture_output=True, text=True).stdout
    assert ("second" in log) is added
    told = told_results(server.bodies[-1])[0]["text"]
    assert (f"permissions.allow of {mine}/settings.json would allow it" in told) is not added


# ── at a terminal ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("H4", "K5")
@pytest.mark.slow
def test_at_a_terminal_tab_completes_a_shell_line_is_asked_and_the_nearest_is_named(repo, own_home):
    put(
        own_home / ".teamwright" / "commands" / "git" / "tidy.md",
        "---\ndescription: Tidies up\n---\n!`touch tidied`\nTidy $1.",
    )
    with at_terminal(lambda body: "All tidy.", repo) as (person, server):
        person.says("/help")
        person.sees("/git:tidy", "Tidies up")
        person.says("/tidi")
        person.sees("there is no /tidi", "/git:tidy")
        person.says("/git:tidy it")
        person.sees("touch tidied")
        person.says("y")
        person.sees("All tidy.")
        assert (repo / "tidied").exists()
        assert words_of(server.bodies[0]).endswith("Tidy it.")


@pytest.mark.promise("H4", "row F6")
def test_at_a_terminal_a_command_that_forks_shows_the_answer_and_the_lead_knows_it_next(repo, own_home):
    put(own_home / ".teamwright" / "commands" / "look.md", "---\ncontext: fork\n---\nLook at $1.")

    def play(body):
        return "A sub-agent looked." if words_of(body).startswith("Look at it.") else "The lead."

    with at_terminal(play, repo) as (person, server):
        person.says("/look it")
        person.sees("A sub-agent looked.")
        person.says("go on")
        person.sees("The lead.")
        assert "A sub-agent looked." in words_of(server.bodies[-1])
        assert len(server.bodies) == 2


# ── what definitions begin with ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("H4", "F46")
def test_a_kind_with_memory_is_told_it_and_writes_it_without_a_question_and_nobody_else_does(repo, mine):
    kind = "---\nname: tester\ndescription: Tests.\nmemory: user\nskills: notes\n---\nTest it."
    put(mine / "agents" / "tester.md", kind)
    put(mine / "skills" / "notes" / "SKILL.md", SKILL)
    kept = mine / "agent-memory" / "tester" / "MEMORY.md"
    put(kept, "The tests take long.")
    note = ("Write", {"file_path": str(kept.with_name("more.md")), "content": "a fact"})
    out = ("Write", {"file_path": str(mine / "settings.json"), "content": "{}"})
    job = ("Agent", {"description": "test it", "prompt": "Go.", "subagent_type": "tester"})

    def play(body):
        told = words_of(body)
        if told.startswith("Go."):
            return Answer(tools=[note, out]) if len(body["messages"]) == 1 else "Tested."
        return Answer(tools=[job, note]) if len(body["messages"]) == 1 else "Done."

    done, bodies = run(repo, mine, "-p", "hi", answers=play)
    assert done.returncode == 0, done.stderr
    theirs = [body for body in bodies if words_of(body).startswith("Go.")]
    assert {json.dumps(body["messages"][0]).count("The tests take long.") for body in theirs} == {1}
    assert {json.dumps(body["system"]).count("Read the log of") for body in theirs} == {1}
    assert "The tests take long." not in json.dumps(bodies[0])
    assert kept.with_name("more.md").read_text() == "a fact"
    assert not (mine / "settings.json").exists()
    results = told_results(next(body for body in reversed(bodies) if words_of(body).startswith("Go.")))
    assert [one.get("is_error", False) for one in results] == [False, True]
    assert told_results(bodies[-1])[1]["is_error"], "the lead is of another kind"


@pytest.mark.promise("H4")
def test_what_a_definition_cannot_begin_with_is_told(repo, mine, tmp_path):
    put(
        mine / "agents" / "tester.md",
        "---\nname: tester\ndescription: Tests.\nmemory: local\nskills: gone\n---\nTest it.",
    )
    (tmp_path / "elsewhere").mkdir()
    (repo / ".teamwright").symlink_to(tmp_path / "elsewhere")
    job = ("Agent", {"description": "test it", "prompt": "Go.", "subagent_type": "tester"})
    answers = [Answer(tools=[job]), "Tested.", "Done."]
    done, bodies = run(repo, mine, "-p", "hi", "--verbose", answers=answers)
    assert done.returncode == 0, done.stderr
    assert "begins without a skill: there is no skill 'gone'" in done.stderr
    assert "begins without memory" in done.stderr
    assert "Your memory" not in json.dumps(bodies[1])


@pytest.mark.promise("H4")
@pytest.mark.slow
def test_a_plugin_brings_skills_and_commands_under_its_name(repo, mine, tmp_path):
    plugin = tmp_path / "whales"
    put(plugin / "commands" / "sing.md", "Sing $1.")
    put(plugin / "skills" / "dive" / "SKILL.md", SKILL.replace("notes", "dive"))
    done, bodies = run(repo, mine, "-p", "/whales:sing it", "--plugin-dir", str(plugin))
    assert done.returncode == 0, done.stderr
    assert words_of(bodies[0]) == "Sing it."
    [tool] = [tool for tool in bodies[0]["tools"] if tool["name"] == "Skill"]
    assert "- whales:dive: " in tool["description"]
    done, bodies = run(repo, mine, "-p", "/sing it")
    assert (done.returncode, bodies) == (2, [])
