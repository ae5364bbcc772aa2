"""Each wait in the tests has the one generous bound."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("without_garbage_collection")

TESTS = Path(__file__).parent
OWN_BOUNDS = {
    "crash",
    "fuzz",
    "live",
    "simulated_product",
    "simulated_product_checks",
    "child.py",
    "governor_child.py",
    "terminal.py",
}
"""Programs that run without the tests' modules, and tests against a service that is not on this machine."""

WAITS = {"timeout", "wait", "wait_for", "communicate", "run", "join", "spawn", "gone"}


def literal(node: ast.expr) -> float:
    given = node.value if isinstance(node, ast.Constant) else None
    return given if isinstance(given, int | float) else 0


def called(function: ast.expr) -> str:
    """Return the last part of the name of what is called."""
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ast.unparse(function)


def short_waits(tree: ast.AST) -> list[int]:
    """Return the lines of waits with a number of seconds for a bound; below one second a test means a pause."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = called(node.func)
            given = [word.value for word in node.keywords if word.arg in {"timeout", "within_s"}]
            given += node.args[-1:] if name in {"timeout", "wait", "wait_for", "join"} else []
            if name.endswith("to_thread") and isinstance(node.args[0], ast.Attribute) and node.args[0].attr in WAITS:
                name, given = node.args[0].attr, given + node.args[1:]
            if (
                (name in WAITS or "find" in name or "ask" in name)
                and "mark" not in ast.unparse(node.func)
                and any(literal(bound) >= 1 for bound in given)
            ):
                found.append(node.lineno)
    return found


def test_waits_with_a_number_are_found():
    lines = ["asyncio.timeout(5)", "p.communicate(timeout=20)", "wait_for(x, 3)", "to_thread(x.wait, 10)"]
    lines += ["find_servers(within_s=5)", "run(timeout=WAIT_S)", "wait(0.1)", "to_thread(x.wait, WAIT_S)"]
    assert short_waits(ast.parse("\n".join(lines))) == [1, 2, 3, 4, 5]


@pytest.mark.finding("V1")
def test_no_wait_in_the_tests_has_a_bound_of_its_own():
    """A bound that a quiet machine keeps easily is broken on a busy one; `tests/support/waits.py` has the bound."""
    paths = [path for path in TESTS.rglob("*.py") if not OWN_BOUNDS & set(path.relative_to(TESTS).parts)]
    found = {str(path.relative_to(TESTS)): short_waits(ast.parse(path.read_text())) for path in paths}
    assert not {path: lines for path, lines in found.items() if lines}
