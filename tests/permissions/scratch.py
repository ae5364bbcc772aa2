"""A small repository and the words to ask a policy about it."""

import os
import subprocess
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Decision, Mode, Verdict


def judge(policy: Policy, tool: str, access: Access) -> tuple[Decision, str]:
    """Return the verdict as a person sees it, with the rule that "always" would store."""
    decision = policy.decide(tool, access)
    return replace(decision, find_always=str), decision.find_always()


class ScratchRepository:
    """A project directory with a few files, a link that leads out of it, and a state root beside it."""

    def __init__(self, root: Path) -> None:
        root = Path(os.path.realpath(root))
        self.outside = root / "outside"
        self.home = root / "state"
        self.project = root / "project"
        for directory in (self.outside, self.home, self.project / "src", self.project / "sub"):
            directory.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        for name in ("a.py", "b.py", "src/main.py", "sub/x.txt"):
            (self.project / name).write_text("text\n")
        (self.outside / "secret").write_text("secret\n")
        (self.home / "trust.json").write_text("{}")
        os.symlink(self.outside, self.project / "link")
        self.scope = PermissionScope((self.project,), private=(self.home,), base=self.project)

    def policy(
        self, mode: Mode = Mode.DEFAULT, allow=(), ask=(), deny=(), by_user: bool = True, trusted: bool = False
    ) -> Policy:
        rules = (
            *parse_rules(allow, Verdict.ALLOW, "allowing", self.project, by_user, trusted),
            *parse_rules(ask, Verdict.ASK, "asking", self.project),
            *parse_rules(deny, Verdict.DENY, "denying", self.project),
        )
        return Policy(mode, rules, self.scope)

    def run(self, command: str, mode: Mode = Mode.DEFAULT, **rules) -> Decision:
        return self.policy(mode, **rules).decide("Bash", self.access(command))

    def access(self, command: str) -> Access:
        return Access(command=command, cwd=self.project)

    def read(self, path: str | Path, tool: str = "Read", mode: Mode = Mode.DEFAULT, **rules) -> Decision:
        return self.policy(mode, **rules).decide(tool, Access(reads=(self.project / path,)))

    def write(self, path: str | Path, tool: str = "Edit", mode: Mode = Mode.DEFAULT, **rules) -> Decision:
        return self.policy(mode, **rules).decide(tool, Access(writes=(self.project / path,)))
