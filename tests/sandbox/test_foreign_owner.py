"""Root of a container in a project of another user: commands may do there what Write may, with each sandbox."""

import os

import pytest

from teamwright.sandbox.owner_capabilities import OWNER_CAPABILITIES, kept_capabilities
from teamwright.sandbox.policy import PolicyName, SandboxPolicy
from teamwright.saved.run_repository import foreign_owner_warnings
from tests.support.repositories import make_repository

pytestmark = pytest.mark.finding("3F6")
OTHER = 61_001


@pytest.fixture
def foreign(confined):
    """The work directory belongs to another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    (confined.work / "f").write_text("x\n")
    for path in (confined.work / "f", confined.work):
        os.chown(path, OTHER, OTHER)
        path.chmod(0o700)
    return confined


def test_root_changes_the_files_of_another_user_and_nothing_outside(foreign, each_implementation, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("")
    os.chown(outside, OTHER, OTHER)
    done = foreign.work_in("echo y >> f && mkdir -p node_modules && touch f && chmod 600 f && cp f g && rm g && cat f")
    assert (done.returncode, done.stdout) == (0, "x\ny\n")
    foreign.work_in(f"echo z > {outside}")
    assert outside.read_text() == ""


def test_root_reads_the_files_of_another_user_and_changes_none_in_the_policy_read(foreign, each_implementation):
    assert foreign.read("cat f").stdout == "x\n"
    assert foreign.read("echo y >> f").returncode != 0
    assert foreign.read("chmod 777 f").returncode != 0
    assert (foreign.work / "f").read_text() == "x\n"


def test_root_keeps_only_these_capabilities_and_none_in_its_own_files(foreign, each_implementation, tmp_path):
    names = "Prm|Eff|Bnd" if each_implementation == "landlock" else "Prm|Eff"
    shown = foreign.work_in(f"grep -E 'Cap({names})' /proc/self/status").stdout.split()[1::2]
    mask = sum(1 << number for number in OWNER_CAPABILITIES.values())
    assert {int(one, 16) for one in shown} == {mask}
    own = tmp_path / "own"
    own.mkdir()
    assert not kept_capabilities(SandboxPolicy(PolicyName.WORK, writable=frozenset({str(own)})))


def test_an_ordinary_user_keeps_none(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert not kept_capabilities(SandboxPolicy(PolicyName.WORK, writable=frozenset({str(tmp_path)})))


def test_the_start_names_the_owner_of_a_repository_that_git_refuses(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    repository = make_repository(tmp_path / "repository")
    assert foreign_owner_warnings(repository) == ()
    for path in (repository, repository / ".git"):
        os.chown(path, OTHER, OTHER)
    [line] = foreign_owner_warnings(repository)
    assert f"belongs to user {OTHER}; to allow it: git config --global --add safe.directory {repository}" in line
