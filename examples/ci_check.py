"""Make one call in a CI job: the answer is on stdout, the events are on stderr, and the exit code shows the ending.

    python examples/ci_check.py
    TEAMWRIGHT_MODEL=scripted:examples/scripts/ci_check.toml python examples/ci_check.py   (no key, no network)

0 done, 1 failed, 4 a cap was reached, 5 members were cut off or a call was denied.
"""

import os
import sys

import teamwright
from teamwright import Budget, CannotStart


def main() -> int:
    try:
        result = teamwright.run(
            "Check that README.md names every file in this directory. Answer in one line.",
            model=os.environ.get("TEAMWRIGHT_MODEL", "sonnet"),
            budget=Budget(usd=1.50, minutes=10),
            permission_mode="dontAsk",
            allowed_tools=["Bash(git log:*)"],
        )
    except CannotStart as problem:
        print(problem.render(), file=sys.stderr)
        return problem.exit_code
    print(result.text)
    for denial in result.denials:
        print(f"refused: {denial['tool_name']} of {denial['member']} ({denial['rule']})", file=sys.stderr)
    print(f"{result.stop}: {result.usage}", file=sys.stderr)
    if not result.ok:
        print(f"go on with: {result.resume_command}", file=sys.stderr)
    return 5 if result.ok and result.denials else result.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
