"""docs/promises.md and the tests name the same ids."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "promises.md"


def named_by_tests() -> set[str]:
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise":
                found |= {
                    arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                }
    return found


def written_down() -> set[str]:
    return set(re.findall(r"^\| ((?:row )?[A-Z]\d+[a-z]?) \|", PAGE.read_text(), re.MULTILINE))


def test_every_promise_that_is_written_down_has_a_test():
    assert not written_down() - named_by_tests()


def test_every_promise_that_a_test_names_is_written_down():
    assert not named_by_tests() - written_down()
