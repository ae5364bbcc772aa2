"""A few sequences of `make worktree-fuzz`, and proof that it notices a permission or a check that is missing."""

import pytest

from teamwright.permissions import worktree_bounds
from teamwright.worktrees import member_branch
from tests.worktrees.fuzz.sequences import run_sequences


@pytest.mark.finding("3W1")
@pytest.mark.finding("3W5")
@pytest.mark.finding("3W11")
async def test_random_lines_in_worktrees_change_nothing_of_the_person():
    figures = await run_sequences(3, most=5)
    assert figures.violations == []
    assert figures.run and figures.asked


@pytest.mark.slow
async def test_the_fuzz_notices_commands_that_are_not_asked_about(monkeypatch):
    monkeypatch.setattr(worktree_bounds, "changes_shared_state", lambda *_args: False)
    figures = await run_sequences(7, most=20, until_violation=True)
    assert figures.violations


@pytest.mark.slow
async def test_the_fuzz_notices_a_commit_of_a_lost_worktree(monkeypatch):
    for name in ("require_worktree", "require_directory"):
        monkeypatch.setattr(member_branch, name, lambda *_args: None)
    monkeypatch.setattr(member_branch, "require_limits", lambda *_args: None)
    figures = await run_sequences(7, most=60, until_violation=True)
    assert figures.violations
