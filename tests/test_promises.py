"""docs/reference/promises.md, tests/features.md and the tests name the same ids."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("without_garbage_collection")

TESTS = Path(__file__).parent
PAGES = (TESTS.parent / "docs" / "reference" / "promises.md", TESTS / "features.md")


@cache
def modules() -> list[list[ast.stmt]]:
    """Return the statements of each test module that names a promise."""
    texts = (path.read_text() for path in sorted(TESTS.rglob("test_*.py")))
    return [ast.parse(text).body for text in texts if "promise(" in text]


def is_slow(node: ast.AST) -> bool:
    """Whether this is a test, or the `pytestmark` of a module, with the mark `slow`."""
    marks = getattr(node, "decorator_list", [])
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
        marks = node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return any(ast.unparse(mark) == "pytest.mark.slow" for mark in marks)


def named_by_tests(*, slow: bool) -> set[str]:
    """Return the promises that tests name; without `slow`, those of the tests that `make test` runs."""
    found: set[str] = set()
    for body in modules():
        if not slow:
            quick = [node for node in body if not is_slow(node)]
            has_tests = any(getattr(node, "name", "").lower().startswith("test") for node in quick)
            body = (
                quick if has_tests and not any(is_slow(node) for node in body if isinstance(node, ast.Assign)) else []
            )
        for node in (node for part in body for node in ast.walk(part)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise":
                found |= {
                    arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                }
    return found


def written_down() -> set[str]:
    text = "".join(page.read_text() for page in PAGES)
    return set(re.findall(r"^\| ((?:row )?[A-Z]\d+[a-z]?) \|", text, re.MULTILINE))


def test_every_promise_that_is_written_down_has_a_test():
    assert not written_down() - named_by_tests(slow=True)


def test_every_promise_that_a_test_names_is_written_down():
    assert not named_by_tests(slow=True) - written_down()


@pytest.mark.slow
@pytest.mark.finding("V1")
def test_every_promise_has_a_test_that_make_test_runs():
    assert not written_down() - named_by_tests(slow=False)
