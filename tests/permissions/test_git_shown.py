"""git shows what is in files: what must not be read is denied where it is named, and asked about where it is not."""

import subprocess

import pytest

from teamwright.permissions.verdict import Mode, Verdict

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
USUAL = ["Read(./.env)", "Read(./secrets/**)"]
SHOWING = ["git diff", "git show", "git log -p", "git diff --stat HEAD~1", "git show HEAD~2", "git diff -- src a.py"]
OWN = ["Bash(git diff:*)", "Bash(git show:*)", "Bash(git log:*)"]

NAMED_TEXT = """
git diff .env
git diff -- .env
git diff HEAD -- a.py ./.env
git diff -- secrets
git diff -- secrets/gone
git diff -- SECRETS/key
git diff -- src/../.env
git diff -- ':(top).env'
git diff -- :/.env
git diff -- .en*
git diff HEAD:.env HEAD:a.py
git show HEAD:.env
git show HEAD:./.env
git show :.env
git show :0:secrets/key
git show HEAD~3:secrets/deep/key
git log -p -- .env
git log -L1,2:.env
git log -p --follow secrets/key
git -C src diff ../.env
git -C src show HEAD:.env
git --no-pager diff .env
git blame .env
git blame HEAD -- secrets/key
git cat-file -p HEAD:.env
git cat-file --batch-check --textconv HEAD:.env
git grep x HEAD -- .env
git diff --no-index a.py .env
git diff --output=x .env
git archive HEAD .env
git format-patch -1 -- .env
cd src && git diff ../.env
timeout 5 git show HEAD:.env
echo x; git diff | cat; git show HEAD:.env
"""
NAMING = NAMED_TEXT.strip().splitlines()


@pytest.fixture
def repository(own_scratch):
    """A repository whose secrets are committed and changed since."""
    scratch = own_scratch
    (scratch.project / "secrets").mkdir()
    for name in (".env", "secrets/key"):
        (scratch.project / name).write_text("secret\n")
    git = ["git", "-C", str(scratch.project), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    return scratch


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("line", NAMING)
@pytest.mark.slow_after(1)
def test_a_denied_file_that_is_named_is_denied_in_every_mode_whatever_is_allowed(repository, line):
    for mode in Mode:
        for allow in ((), OWN, ["Bash"]):
            assert repository.run(line, mode, allow=allow, deny=USUAL).verdict is DENY, (mode, allow)


@pytest.mark.promise("G2")
@pytest.mark.parametrize("line", SHOWING)
@pytest.mark.slow_after(1)
def test_the_users_own_rule_about_the_command_answers_what_nobody_named(repository, line):
    assert repository.run(line, deny=USUAL).verdict is ASK
    assert repository.run(line, Mode.DONT_ASK, deny=USUAL).verdict is DENY
    for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK):
        for allow in (OWN, ["Bash(git:*)"], ["Bash"], [f"Bash({line})"]):
            assert repository.run(line, mode, allow=allow, deny=USUAL).verdict is ALLOW, (mode, allow)
    assert repository.run(f"{line} | head -50", allow=OWN, deny=USUAL).verdict is ALLOW


@pytest.mark.promise("G2", "P7")
def test_nobody_elses_rule_answers_it_and_no_rule_answers_an_ask_rule(repository):
    for line in SHOWING:
        assert repository.run(line, allow=OWN, deny=USUAL, by_user=False).verdict is ASK, line
        assert repository.run(line, allow=["Bash(git status:*)"], deny=USUAL).verdict is ASK, line
        assert repository.run(line, allow=OWN, ask=USUAL).verdict is ASK, line
        assert repository.run(line, allow=OWN, ask=[f"Bash({line}:*)"], deny=USUAL).verdict is ASK, line


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("line", ["git diff -- '*env'", "git diff -- ':(glob)**/k*'", "git log -p -- 's?crets'"])
def test_a_pattern_that_git_would_match_is_not_written_out_and_keeps_asking(repository, line):
    assert repository.run(line, allow=OWN, deny=USUAL).verdict is ASK


@pytest.mark.promise("G2")
def test_what_is_excluded_is_not_named(repository):
    for line in ("git diff -- . ':!.env' ':^secrets'", "git diff -- ':(top,exclude).env'"):
        assert repository.run(line, allow=OWN, deny=USUAL).verdict is ALLOW, line


@pytest.mark.promise("G2")
def test_a_commit_of_the_same_name_is_no_file_and_a_file_that_is_gone_is_named_behind_the_dashes(repository):
    deny = ["Read(./gone)"]
    assert repository.run("git diff gone", allow=OWN, deny=deny).verdict is ALLOW
    assert repository.run("git diff -- gone", allow=OWN, deny=deny).verdict is DENY
    assert repository.run("git log --oneline -- .env", deny=USUAL).verdict is ALLOW
    assert repository.run("git status .env", deny=USUAL).verdict is ALLOW


@pytest.mark.promise("G2", "P7")
def test_git_shows_the_whole_work_tree_from_a_directory_in_it_too(repository):
    for line in ("cd src && git diff", "git -C src diff", "cd src && git show", "cd sub; git log -p"):
        assert repository.run(line, deny=USUAL).verdict is ASK, line
        assert repository.run(line, deny=["Read(./src/nothing/**)"]).verdict is ASK, line
        assert repository.run(line, deny=["Read(~/.ssh/**)"]).verdict is ALLOW, line
    assert repository.run("cd src && git diff", allow=OWN, deny=USUAL).verdict is ALLOW


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("line", ["git grep secret", "git blame a.py", "git cat-file -p HEAD", "git stash show -p"])
def test_a_rule_about_another_command_does_not_answer_for_what_it_may_show(repository, line):
    assert repository.run(line, allow=["Bash(git:*)"], deny=USUAL).verdict is ASK
    assert repository.run(line, allow=["Bash(git:*)"]).verdict is ALLOW
