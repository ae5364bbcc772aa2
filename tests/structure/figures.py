"""Print the figures of the code's structure: `make house`. With `--write` the lists of exceptions become shorter."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from tests.structure import flows, lists, rules, shapes
from tests.structure.source import length, modules
from tests.support.waits import WAIT_S

RUNS = 5


def exceptions() -> dict[str, list[str]]:
    """Return what each rule finds."""
    return {
        "upward imports": rules.upward_imports(),
        "two-way folders": rules.two_way_folders(),
        "repeated class names": rules.repeated_class_names(),
        "repeated module names": rules.repeated_module_names(),
        "catch-all modules": rules.catch_all_modules(),
        "names that only tests use": rules.unused_public_names(),
        "stores named by path": rules.stores_named_by_path(),
        "assignments to objects of another package": rules.foreign_assignments(),
        "names resolved outside saved": rules.names_resolved_elsewhere(),
        "callbacks that are filled later": rules.late_callbacks(),
    }


def figures() -> list[tuple[str, str]]:
    """Return each figure with its value. None of them is a goal: they show where a reader would stumble."""
    everything = [module for module in modules() if module.layer]
    plain = [module for module in everything if not module.is_package]
    lengths = sorted(length(function) for module in everything for function in module.functions())
    imports = sum(len(module.imported) for module in plain) / len(plain)
    words = rules.dialect_words()
    return [
        ("modules", str(len(everything))),
        ("lines", f"{sum(module.lines for module in everything):,}"),
        ("packages", str(sum(module.is_package for module in everything))),
        ("imports of our own modules a module", f"{imports:.1f}"),
        ("modules that a headless session loads", str(_loaded())),
        ("functions", f"{len(lengths):,}"),
        (
            "lines of a function, median / p90 / p99",
            " / ".join(str(_share(lengths, part)) for part in (0.5, 0.9, 0.99)),
        ),
        ("private functions of at most 8 lines, named once", f"{len(rules.small_functions_used_once()):,}"),
        ("assignments that pack several values", f"{rules.packed_assignments():,}"),
        *((rule, str(len(left))) for rule, left in exceptions().items()),
        ("shapes of a member", str(len(shapes.MEMBER))),
        ("shapes of a pending request / of its answer", f"{len(shapes.REQUEST)} / {len(shapes.ANSWER)}"),
        *((f"files: {heading}", str(len({path for path, _ in hops}))) for heading, hops in flows.flows().items()),
        ("old words per 1,000 in docstrings and comments", str(words["all"])),
        ("--help, CPU ms", f"{_cpu_ms(['--help']):.0f}"),
        ("headless turn, CPU ms", f"{_cpu_ms(HEADLESS):.0f}"),
    ]


SCRIPT = '[[agent.lead.turn]]\nsay = "done"\n'
HEADLESS = ["-p", "hello", "--model", "scripted:SCRIPT"]


def _share(lengths: Sequence[int], share: float) -> str:
    return str(lengths[int(len(lengths) * share)])


def _run(args: Sequence[str], *options: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        script = os.path.join(home, "script.toml")
        with open(script, "w") as file:
            file.write(SCRIPT)
        words = [word.replace("SCRIPT", script) for word in args]
        env = {**os.environ, "HOME": home, "TEAMWRIGHT_HOME": os.path.join(home, "state")}
        command = [sys.executable, *options, "-m", "teamwright", *words]
        done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, check=False, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr[-500:]
        return done.stderr


def _loaded() -> int:
    return sum("teamwright." in line for line in _run(HEADLESS, "-X", "importtime").splitlines())


def _cpu_ms(args: Sequence[str]) -> float:
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (usage.ru_utime + usage.ru_stime)

    found: list[float] = []
    for _ in range(RUNS):
        before = used()
        _run(args)
        found.append(used() - before)
    return min(found)


def main() -> None:
    """Print the table; with `--write` write the lists of exceptions, with `--list` print them."""
    if "--write" in sys.argv:
        lists.write(exceptions())
    if "--list" in sys.argv:
        for rule, found in exceptions().items():
            print(f"{rule}:", *found, sep="\n    ")
        for package, share in sorted(rules.dialect_words().items()):
            print(f"old words per 1,000 in {package}: {share}")
    for name, value in figures():
        print(f"{name:<52} {value:>12}")
    reasons = rules.size_reasons()
    large = rules.large_pieces()
    print(f"{'modules over 700 lines, functions over 80':<52} {len(large):>12}")
    for name in large:
        print(f"    {name}: {reasons.get(name, 'NO REASON in size_reasons.json')}")


if __name__ == "__main__":
    main()
