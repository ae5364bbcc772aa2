"""Repositories that want git to run something: what is allowed without a question is run for real, and runs nothing.

Each repository has a program that leaves a mark. A second test proves that the mark would be left.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from teamwright.git.repository_risks import git_entries
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from tests.support.waits import WAIT_S

COMMANDS = (
    "git status",
    "git status --porcelain --ignored",
    "git diff",
    "git diff HEAD",
    "git diff --stat HEAD~1",
    "git log -p",
    "git show HEAD",
    "git blame a.txt",
    "git annotate a.txt",
    "git grep one",
    "git ls-files -m -o",
    "git describe --always --dirty",
    "git stash list",
    "git branch -v",
    "git remote -v",
    "git worktree list",
    "git shortlog HEAD",
    "git whatchanged -p",
    "git cat-file -p HEAD:a.txt",
    "git range-diff HEAD~1 HEAD~1 HEAD",
    "git check-ignore a.txt",
    "git config --get user.name",
)
"""Lines that only read, and are allowed in a repository of which nothing is to be feared."""


class Place:
    """A repository with two commits and a merge, a directory `emb` in it, and a program that leaves a mark."""

    def __init__(self, root: Path) -> None:
        root = Path(os.path.realpath(root))
        self.project, self.home, self.mark = root / "project", root / "home", root / "ran"
        self.home.mkdir(parents=True)
        self.program = root / "evil.sh"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.mark}\n')
        self.program.chmod(0o755)
        self.emb = self.project / "emb"
        self.emb.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        (self.project / "same.txt").write_text("same\n")
        self.git("add", "same.txt")
        self.commit("one\ntwo\n", "first")
        self.git("checkout", "-q", "-b", "side")
        self.commit("side\ntwo\n", "side")
        self.git("checkout", "-q", "main")
        self.commit("main\ntwo\n", "second")
        self.git("merge", "-q", "side", check=False)
        self.commit("both\ntwo\n", "merge")
        self.git("tag", "merged")
        self.commit("last\ntwo\n", "last")
        (self.project / "a.txt").write_text("changed\ntwo\n")
        self.policy = Policy(Mode.DEFAULT, (), PermissionScope((self.project,), base=self.project))

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_PAGER": "cat", "TERM": "dumb"}

    def git(self, *args: str, cwd: Path | None = None, check: bool = True) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(
            ["git", *who, *args],
            cwd=cwd or self.project,
            env=self.env,
            check=check,
            capture_output=True,
            timeout=WAIT_S,
        )

    def output(self, *args: str, stdin: str = "") -> str:
        argv = ["git", "-C", str(self.project), *args]
        return subprocess.run(argv, env=self.env, input=stdin, capture_output=True, text=True, check=True).stdout

    def commit(self, text: str, title: str) -> None:
        (self.project / "a.txt").write_text(text)
        self.git("add", "a.txt")
        self.git("commit", "-q", "-m", title)

    def configure(self, text: str) -> None:
        with open(self.project / ".git" / "config", "a", newline="") as file:
            file.write(text)

    def allows(self, line: str) -> bool:
        return self.policy.decide("Bash", Access(command=line, cwd=self.project)).verdict is Verdict.ALLOW

    def run(self, line: str) -> bool:
        """Run the line as a shell does; whether the program left its mark."""
        for path in (self.project / "a.txt", self.project / "same.txt"):  # so that git looks at them, and notes that
            os.utime(path, (0, int(path.stat().st_mtime) - 1))
        subprocess.run(
            ["bash", "-c", line],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("built"))


@pytest.fixture
def place(built, tmp_path):
    """A place of its own, copied from one that was built once."""
    root = Path(os.path.realpath(tmp_path))
    shutil.copytree(built.project.parent, root, symlinks=True, dirs_exist_ok=True)
    made = object.__new__(Place)
    made.project, made.home, made.mark = root / "project", root / "home", root / "ran"
    made.emb = made.project / "emb"
    made.program = root / "evil.sh"
    made.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {made.mark}\n')
    made.policy = Policy(Mode.DEFAULT, (), PermissionScope((made.project,), base=made.project))
    return made


def bare(at: Path, program: Path, head: str = "ref: refs/heads/main\n") -> None:
    """What a commit can contain: a directory that git takes for a repository, with a program in its configuration."""
    for name in ("objects", "refs"):
        (at / name).mkdir(parents=True)
        (at / name / "kept").touch()
    (at / "HEAD").write_text(head)
    (at / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = {program}\n"
    )


def with_common_directory(place: Place) -> None:
    bare(place.emb / "x", place.program)
    (place.emb / "HEAD").write_text("ref: refs/heads/main\n")
    (place.emb / "commondir").write_text("x\n")
    (place.emb / "x" / "config").write_text(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tworktree = .\n[extensions]\n\tworktreeConfig = true\n"
    )
    (place.emb / "config.worktree").write_text(f"[core]\n\tfsmonitor = {place.program}\n")


def with_the_common_directory_of_the_repository(place: Place) -> None:
    place.git("config", "core.repositoryFormatVersion", "1")
    place.git("config", "extensions.worktreeConfig", "true")
    (place.emb / "HEAD").write_text("ref: refs/heads/main\n")
    (place.emb / "commondir").write_text("../.git\n")
    (place.emb / "config.worktree").write_text(f"[core]\n\tworktree = .\n\tfsmonitor = {place.program}\n")


def with_a_linked_head(place: Place) -> None:
    bare(place.emb, place.program)
    (place.emb / "HEAD").unlink()
    (place.emb / "HEAD").symlink_to("refs/heads/main")


def with_a_git_file(place: Place) -> None:
    bare(place.emb / "deeper", place.program)
    (place.emb / ".git").write_text("gitdir: deeper\n")


def with_a_linked_git_directory(place: Place) -> None:
    bare(place.emb / "deeper", place.program)
    (place.emb / ".git").symlink_to("deeper")


def with_a_broken_git_directory(place: Place) -> None:
    bare(place.emb, place.program)
    (place.emb / ".git").mkdir()
    (place.emb / ".git" / "HEAD").write_text("nothing\n")


def with_a_whole_repository(place: Place) -> None:
    place.git("init", "-q", str(place.emb))
    place.git("config", "core.fsmonitor", str(place.program), cwd=place.emb)


FOUND_BY_GIT = {
    "a common directory": with_common_directory,
    "the repository's own common directory": with_the_common_directory_of_the_repository,
    "a bare one": lambda place: bare(place.emb, place.program),
    "a bare one with a commit": lambda place: bare(place.emb, place.program, head="1" * 40 + "\n"),
    "a linked HEAD": with_a_linked_head,
    "a git file": with_a_git_file,
    "a linked git directory": with_a_linked_git_directory,
    "a broken git directory": with_a_broken_git_directory,
    "a whole one": with_a_whole_repository,
}
INTO = (
    "cd emb && {}",
    "cd emb/below && {}",
    "cd emb; {}",
    "(cd emb; {})",
    "git -C emb {}",
    "cd src/.. && cd emb && {}",
)


@pytest.mark.promise("K1", "P7")
@pytest.mark.finding("P4")
@pytest.mark.parametrize("kind", FOUND_BY_GIT)
@pytest.mark.slow_after(1)
def test_a_repository_inside_the_repository_runs_nothing_before_it_is_trusted(place, kind):
    FOUND_BY_GIT[kind](place)
    (place.emb / "below").mkdir()
    lines = [form.format(one.removeprefix("git ") if "-C" in form else one) for form in INTO for one in COMMANDS]
    asked = [line for line in lines if not place.allows(line)]
    assert asked == lines, "every command in that directory is asked about"
    assert any(place.run(line) for line in lines[:4]), "the mark would be left"
    assert place.allows("git status")
    assert not place.run("git status")


@pytest.mark.promise("K1")
@pytest.mark.finding("P4")
@pytest.mark.parametrize("kind", FOUND_BY_GIT)
def test_trust_in_a_repository_is_no_trust_in_one_inside_it(place, kind):
    place.configure("[core]\n\teditor = vi\n")
    FOUND_BY_GIT[kind](place)
    place.policy.change_scope(
        PermissionScope((place.project,), trusted_git=frozenset(git_entries(place.project)), base=place.project)
    )
    assert place.allows("git status")
    assert not place.allows("cd emb && git status")


@pytest.mark.promise("K1")
@pytest.mark.finding("P4")
def test_trust_in_a_directory_is_no_trust_in_a_repository_that_it_becomes(place):
    shutil.rmtree(place.project / ".git")
    trusted = frozenset(git_entries(place.project))
    place.policy.change_scope(PermissionScope((place.project,), trusted_git=trusted, base=place.project))
    assert place.allows("git status")
    bare(place.project, place.program)
    assert not place.allows("git status")


ABSURD = {
    "a NUL byte": "../stolen\0x\n",
    "a long text": "./" * 6000 + "../stolen\n",
    "nothing": "",
    "an end of line": "\n",
}


@pytest.mark.finding("P17")
@pytest.mark.parametrize("kind", ABSURD)
def test_a_common_directory_that_cannot_be_read_as_git_reads_it_asks(place, kind):
    bare(place.project / "stolen", place.program)
    assert place.allows("git status")
    (place.project / ".git" / "commondir").write_text(ABSURD[kind])
    assert not place.allows("git status")
    trusted = frozenset(git_entries(place.project))
    place.policy.change_scope(PermissionScope((place.project,), trusted_git=trusted, base=place.project))
    assert not place.allows("git status"), "what cannot be read is never trusted"
    if kind in {"a NUL byte", "a long text"}:
        assert place.run("git status"), "git would run the program of the other directory"


@pytest.mark.finding("P3")
@pytest.mark.parametrize("name", ["packed-refs", "shallow", "info/grafts", "rebase-merge/done"])
def test_a_file_of_git_that_links_elsewhere_asks_because_git_shows_its_lines(place, name):
    path = place.project / ".git" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    assert place.allows("git status")
    path.symlink_to(place.project.parent / "elsewhere")
    assert not place.allows("git status")


@pytest.mark.finding("P4")
def test_a_plain_repository_inside_the_repository_is_read_like_any_other(place):
    place.git("init", "-q", str(place.emb))
    assert place.allows("cd emb && git status")
    assert not place.run("cd emb && git status")


@pytest.mark.promise("G1")
@pytest.mark.parametrize("line", COMMANDS)
def test_commands_that_read_are_allowed_in_a_plain_repository(place, line):
    assert place.allows(line)
    assert not place.run(line)


@pytest.mark.finding("P17")
def test_outside_a_repository_git_diff_compares_any_two_files_and_is_asked_about(place):
    shutil.rmtree(place.project / ".git")
    (place.home / "secret").write_text("secret\n")
    (place.project / "out").symlink_to(place.home)
    assert not place.allows("git diff out/secret a.txt")
    assert not place.allows("cd emb && git diff out/secret a.txt")
    assert place.allows("git status")


@pytest.mark.finding("P17")
def test_git_grep_asks_where_a_directory_of_the_working_tree_is_a_link_to_the_outside(place):
    assert place.allows("git grep secret") and place.allows("git grep secret -- src")
    (place.home / "lib").mkdir()
    (place.home / "lib" / "secret").write_text("secret\n")
    shutil.copytree(place.home / "lib", place.project / "lib")
    subprocess.run(["git", "add", "lib"], cwd=place.project, check=True)
    shutil.rmtree(place.project / "lib")
    (place.project / "lib").symlink_to(place.home / "lib")
    shown = subprocess.run(["git", "grep", "secret"], cwd=place.project, capture_output=True, text=True, timeout=WAIT_S)
    assert "lib/secret" in shown.stdout
    assert not place.allows("git grep secret")
    assert not place.allows("cd src && git grep secret -- :/")
    assert place.allows("git grep --cached secret")


ATTRIBUTES = "* diff=x filter=x merge=x\n"
SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----\n"
RUN_BY_READING = {
    "core.fsmonitor": "git status",
    "core.hooksPath": "git status",
    "diff.external": "git diff",
    "diff.x.command": "git diff",
    "diff.x.textconv": "git log -p",
    "filter.x.clean": "git diff",
    "filter.x.process": "git diff",
    "merge.x.driver": "git show --remerge-diff merged",
    "gpg.program": "git -c log.showSignature=true log",
    "gpg.openpgp.program": "git -c log.showSignature=true log",
}
"""Keys that name a program, each with a line that runs it."""

RUN_OTHERWISE = [
    *("alias.status", "alias.whatchanged", "alias.x", "annex.genericcommand", "browser.x.cmd", "browser.x.path"),
    *("core.alternateRefsCommand", "core.askPass", "core.attributesFile", "core.editor", "core.excludesFile"),
    *("core.gitProxy", "core.pager", "core.sshCommand", "core.worktree", "credential.helper"),
    *("credential.https://example.org.helper", "difftool.x.cmd", "difftool.x.path"),
    *("extensions.partialClone", "extensions.unheard-of", "filter.x.smudge", "gpg.ssh.defaultKeyCommand"),
    *("gpg.ssh.program", "gpg.x509.program", "grep.fallbackToNoIndex", "guitool.x.cmd", "help.browser"),
    *("hook.x.command", "hook.x.event", "http.cookieFile", "http.proxy", "imap.tunnel", "include.path"),
    *("includeIf.gitdir:/.path", "init.templateDir", "instaweb.httpd", "interactive.diffFilter"),
    *("lfs.customtransfer.x.path", "lfs.extension.x.clean", "lfs.extension.x.smudge", "log.diffMerges"),
    *("log.showSignature", "man.x.cmd", "man.x.path", "mergetool.x.cmd", "mergetool.x.path", "pager.log"),
    *("pager.status", "receive.procReceiveRefs", "remote.origin.promisor", "remote.origin.proxy"),
    *("remote.origin.receivepack", "remote.origin.uploadpack", "remote.origin.vcs"),
    *("sendemail.sendmailCmd", "sendemail.toCmd", "sequence.editor", "ssh.variant", "submodule.x.update"),
    *("svn-remote.x.url", "tar.x.command", "trailer.x.cmd", "trailer.x.command", "trailer.x.key"),
    *("uploadpack.packObjectsHook", "url.ext::x.insteadOf", "web.browser"),
]
"""Every other key of git and its companions that names a program, a file, or another repository."""


def spelled(key: str, program: str) -> dict[str, str]:
    """The same entry in every way in which git reads it."""
    section, _, rest = key.partition(".")
    subsection, _, name = rest.rpartition(".")
    head = f'[{section} "{subsection}"]' if subsection else f"[{section}]"
    loud = f'[{section.upper()} "{subsection}"]' if subsection else f"[{section.upper()}]"
    half = len(program) // 2
    return {
        "plainly": f"{head}\n\t{name} = {program}\n",
        "in upper case": f"{loud}\n{name.upper()}={program}\n",
        "in one line": f"{head} {name} = {program}\n",
        "in quotes": f'{head}\n\t{name} = "{program}"\n',
        "partly in quotes": f'{head}\n\t{name} = "{program[:half]}"{program[half:]}\n',
        "over two lines": f"{head}\n\t{name} = {program[:half]}\\\n{program[half:]}\n",
        "behind a quoted comment": f'{head}\n\t{name} = "off#" ; {program}\n\t{name} = {program}\n',
        "with a comment": f"{head}  # {head}\n\t{name} = {program}  ; no\n",
        "with carriage returns": f"{head}\r\n\t{name} = {program}\r\n",
        "with a byte order mark": f"\ufeff{head}\n\t{name} = {program}\n",
        "with a dot": f"[{section}.{subsection}]\n\t{name} = {program}\n" if subsection else f"{head}{name}={program}",
        "twice": f"{head}\n\t{name} = off\n{head}\n\t{name} = {program}\n",
        "after a long value": f'[user]\n\tname = "a;\\n\\"\\\n[core]"\n{head}\n\t{name} = {program}\n',
    }


@pytest.fixture
def attracting(place):
    """A place in which attributes choose the drivers `x`, and HEAD has a signature."""
    (place.project / ".gitattributes").write_text(ATTRIBUTES)
    head = place.output("cat-file", "-p", "HEAD")
    signed = place.output(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin=head.replace("\n\n", f"\n{SIGNATURE}\n", 1)
    )
    place.git("update-ref", "HEAD", signed.strip())
    return place


@pytest.mark.promise("K1", "P7")
@pytest.mark.finding("P5")
@pytest.mark.slow_after(1)
@pytest.mark.parametrize("key", [*RUN_BY_READING, *RUN_OTHERWISE])
def test_no_key_however_it_is_spelled_makes_an_allowed_line_run_something(attracting, key):
    place = attracting
    config = place.project / ".git" / "config"
    before = config.read_text()
    if key == "core.hooksPath":
        shutil.copy(place.program, place.program.parent / "post-index-change")
    value = str(place.program.parent if key == "core.hooksPath" else place.program)
    for how, text in spelled(key, value).items():
        # git looks for a byte order mark at the beginning only
        config.write_text(text + before if text.startswith("\ufeff") else before + text, newline="")
        allowed = [line for line in COMMANDS if place.allows(line)]
        assert not [line for line in allowed if place.run(line)], how
        if key in RUN_BY_READING:
            assert not allowed, how
            assert place.run(RUN_BY_READING[key]), f"{how}: the mark would be left"


@pytest.mark.promise("K1", "P7")
@pytest.mark.finding("P5")
@pytest.mark.parametrize("how", ["ssh", "a program of the remote"])
def test_missing_objects_are_fetched_by_no_allowed_line(place, how):
    place.git("config", "core.repositoryFormatVersion", "1")
    place.git("config", "extensions.partialClone", "origin")
    place.git("config", "remote.origin.promisor", "true")
    if how == "ssh":
        place.git("config", "remote.origin.url", "ssh://example.org/x")
        place.git("config", "core.sshCommand", str(place.program))
    else:
        place.git("config", "remote.origin.url", str(place.project))
        place.git("config", "remote.origin.uploadpack", str(place.program))
    blob = place.output("rev-parse", "HEAD:a.txt").strip()
    (place.project / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert not [line for line in COMMANDS if place.allows(line)]
    assert place.run("git show HEAD:a.txt"), "the mark would be left"


@pytest.mark.promise("K1", "P7")
@pytest.mark.finding("P5")
@pytest.mark.parametrize("name", ["post-index-change", "POST-INDEX-CHANGE", "fsmonitor-watchman", "query-watchman"])
@pytest.mark.slow_after(1)
def test_a_hook_that_reading_could_run_is_asked_about(place, name):
    hook = place.project / ".git" / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    shutil.copy(place.program, hook)
    assert not place.allows("git status")
    assert not place.allows("git describe --always --dirty")
    hook.rename(hook.with_name("pre-commit"))
    assert not [line for line in COMMANDS if not place.allows(line) or place.run(line)]


@pytest.mark.promise("K1", "P7")
@pytest.mark.finding("P4")
def test_a_submodule_runs_nothing_through_the_repository_around_it(place):
    with_a_whole_repository(place)
    place.git("commit", "-q", "--allow-empty", "-m", "first", cwd=place.emb)
    place.git("-c", "advice.addEmbeddedRepo=false", "add", "emb")
    place.mark.unlink(missing_ok=True)
    assert place.run("git status"), "the mark would be left"
    assert not [line for line in COMMANDS if place.allows(line)]


@pytest.mark.promise("K1", "P7")
@pytest.mark.finding("P5")
@pytest.mark.parametrize("option", ["--submodule=diff", "--submodule=log", "--submodule", "--submod=diff"])
@pytest.mark.slow_after(1)
def test_a_submodule_that_only_former_commits_have_runs_nothing(place, option):
    with_a_whole_repository(place)
    (place.emb / "b.txt").write_text("one\n")
    place.git("add", "b.txt", cwd=place.emb)
    place.git("commit", "-q", "-m", "first", cwd=place.emb)
    place.git("config", "diff.external", str(place.program), cwd=place.emb)
    place.git("add", "emb")
    place.git("commit", "-q", "-m", "with a submodule")
    place.git("rm", "-q", "--cached", "emb")
    place.git("commit", "-q", "-m", "without it")
    place.mark.unlink(missing_ok=True)
    assert place.run("git log -p --submodule=diff"), "the mark would be left"
    assert not place.allows(f"git log -p {option}")
    assert not [line for line in COMMANDS if not place.allows(line) or place.run(line)]


@pytest.mark.promise("G1", "P7")
@pytest.mark.finding("P4")
@pytest.mark.parametrize(
    "line",
    [
        "for i in 1 2; do git -C emb status; cp head emb/HEAD; done",
        "while true; do git -C emb status; cp head emb/HEAD; done",
        "{ sleep 1; git -C emb status; } & cp head emb/HEAD",
        "sleep 1 | git -C emb status | cp head emb/HEAD",
        "(sleep 1; git -C emb status) & mv head emb/HEAD",
        "cp head emb/HEAD && git -C emb status",
    ],
)
def test_no_line_that_copies_makes_a_repository_for_its_own_git(place, line):
    bare(place.emb, place.program)
    (place.emb / "HEAD").rename(place.project / "head")
    place.policy.change_mode(Mode.ACCEPT_EDITS)
    assert place.allows("git -C emb status; cp head emb/HEAD")
    assert place.allows("mkdir -p emb/x && cp -v head emb/other 2>&1")
    assert not place.allows(line)


@pytest.mark.finding("P11")
@pytest.mark.parametrize(
    "line",
    [
        "cd emb; git diff",
        "cd emb && git diff HEAD",
        "(cd emb && git diff)",
        "git -C emb diff",
        "git -C . -C emb diff",
        "cd emb && cd sub/.. && git diff",
    ],
)
def test_a_rule_for_git_does_not_trust_a_repository_inside_the_repository(place, line):
    shutil.copytree(place.project / ".git", place.emb / ".git")
    (place.emb / "sub").mkdir()
    with open(place.emb / ".git" / "config", "a") as config:
        config.write(f"[core]\n\tfsmonitor = {place.program}\n")
    rules = parse_rules(
        ["Bash(git diff:*)", "Bash(git -C:*)", "Bash(cd:*)"], Verdict.ALLOW, "mine", place.project, True
    )
    policy = Policy(Mode.DEFAULT, rules, PermissionScope((place.project,), base=place.project))
    decision = policy.decide("Bash", Access(command=line, cwd=place.project))
    assert decision.verdict is Verdict.ASK and "fsmonitor" in decision.reason
    own = policy.decide("Bash", Access(command="git diff", cwd=place.project))
    assert own.verdict is Verdict.ALLOW
    everything = parse_rules(["Bash"], Verdict.ALLOW, "mine", place.project, True)
    free = Policy(Mode.DEFAULT, everything, PermissionScope((place.project,), base=place.project))
    assert free.decide("Bash", Access(command="cd emb && git diff", cwd=place.project)).verdict is Verdict.ALLOW
