"""git commands that only read: the options with which they are allowed, and those that ask."""

import subprocess

import pytest

from teamwright.permissions.verdict import Verdict
from teamwright.shell_lines.programs.git import GIT_COMMANDS, find_git_reads, git_grammar

READ = r"""
git status -sb
git status --porcelain=v2 --untracked-files=no
git diff --stat HEAD~1
git diff main...HEAD -- src
git diff -U5 --word-diff a.py
git diff --cached --name-only
git log --oneline --graph --all -20
git log -p -1 --no-textconv
git log -n 5 --author=ada --since='2 weeks ago' --format='%h %s'
git log --pretty=format:%h%x09%an -S text
git log -L1,2:a.py
git log --no-show-signature
git show HEAD --stat
git show --format=fuller HEAD:a.py
git branch -avv
git branch --list 'f*' --sort=-committerdate
git branch --contains HEAD
git branch --show-current
git tag --list 'v*' --sort=version:refname
git blame -w -L 1,5 a.py
git reflog
git reflog show -n 5 HEAD
git stash list -p
git stash show -p
git rev-parse --abbrev-ref HEAD
git remote get-url origin
git config --get user.name
git config user.email
git config remote.origin.url
git for-each-ref --count=3 --format='%(refname)' refs/heads
git ls-files -o --exclude-standard
git grep --cached -n -C 2 text -- src
git grep --cached -e /api/ src
git worktree list --porcelain
git -C src --no-pager diff
git -P log -1
git --version
git shortlog -sn HEAD
git describe --tags --always
git diff-tree --no-commit-id -r HEAD
""".strip().splitlines()

ASKED = r"""
git show --remerge-diff HEAD
git log --remerge-diff
git log --diff-merges=remerge
git log --diff-merges=r -p
git log -m -p
git log --submodule=diff -p
git diff --submodule=log
git log --show-signature
git log --format=%G?
git log --format='%+GS'
git log --format=evil
git log --pretty=evil
git for-each-ref --sort=signature:grade
git branch --format='%(signature)'
git diff --output=x
git diff --outp=x
git diff --ext-diff
git diff --textconv
git diff --no-index a.py /etc/passwd
git diff -O../outside/secret
git log -Oorder
git diff -- ../outside/secret
git grep -f a.py
git grep -nf a.py
git grep -O text
git grep --no-index text
git grep --recurse-submodules text
git grep --textconv text
git blame --contents ../outside/secret a.py
git blame -S a.py a.py
git blame --ignore-revs-file=a.py a.py
git ls-files -X ../outside/secret
git cat-file --textconv HEAD:a.py
git cat-file --filters HEAD:a.py
git cat-file --batch-command
git rev-list --stdin
git -c core.pager=x log
git --git-dir=sub log
git --work-tree=.. status
git --exec-path=. status
git --config-env=core.pager=HOME log
git --super-prefix=x/ status
git --namespace=x log
git -p log
git --paginate log
git config --list
git config -l
git config list
git config --get http.extraheader
git config --get credential.helper
git config --get-urlmatch http https://example.org
git config user.name ada
git config user.name --get
git config core.pager '--type=x;touch_marker'
git config core.editor --path
git config set user.name ada
git config --unset user.name
git config -e
git config -f ../outside/secret user.name
git branch new
git branch -l new
git branch -u origin/main
git branch --edit-description
git branch --column new
git tag new
git tag -v v1
git stash
git stash drop
git reflog expire --all
git reflog delete HEAD@{1}
git reflog drop --all
git remote add x y
git remote show origin
git remote update
git worktree add x
git worktree prune
git symbolic-ref HEAD refs/heads/x
git notes add -m x
git describe --broken
git log --format --output=a%b
git log --author --output=out
git whatchanged --remerge-diff
git fsck
git var GIT_EDITOR
git ls-remote
git diff-tree --stdin
git st
""".strip().splitlines()


@pytest.fixture
def repository(own_scratch):
    git = ["git", "-C", str(own_scratch.project), "-c", "user.name=a", "-c", "user.email=a@b"]
    for step in (["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *step], check=True)
    return own_scratch


@pytest.mark.finding("P13")
def test_git_reads_unasked_with_the_options_of_the_table(repository):
    for line in READ:
        decision = repository.run(line)
        assert decision.verdict is Verdict.ALLOW, (line, decision.reason)


@pytest.mark.finding("P5", "P7")
def test_a_git_option_that_is_not_in_the_table_asks(repository):
    for line in ASKED:
        assert repository.run(line).verdict is Verdict.ASK, line


@pytest.mark.finding("P7")
@pytest.mark.parametrize("line", ["git reflog show -p", "git reflog show -U1", "git stash list -p", "git status -v"])
def test_each_git_command_that_shows_contents_heeds_deny_rules(repository, line):
    assert repository.run(line).verdict is Verdict.ALLOW
    assert repository.run(line, deny=["Read(.env)"]).verdict is Verdict.ASK
    assert repository.run(f"{line} -- .env", deny=["Read(.env)"]).verdict is not Verdict.ALLOW


@pytest.mark.finding("P7")
def test_what_shows_no_contents_is_not_concerned_by_deny_rules(repository):
    for line in ("git reflog", "git reflog show -n5", "git stash list", "git status -s", "git log --oneline -- .env"):
        assert repository.run(line, deny=["Read(.env)"]).verdict is Verdict.ALLOW, line


@pytest.mark.finding("P17")
def test_a_link_that_git_diff_names_is_judged_as_a_file(repository):
    assert repository.run("git diff a.py b.py").verdict is Verdict.ALLOW
    assert repository.run("git diff link/secret a.py").verdict is Verdict.ASK
    assert repository.run("git -C src diff ../link/secret main.py").verdict is Verdict.ASK


def test_every_grammar_of_a_git_command_can_be_parsed():
    assert all(git_grammar(name) is not None for name in GIT_COMMANDS)
    assert git_grammar("push") is None
    assert find_git_reads(["push"]) is None
