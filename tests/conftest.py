"""What every test gets: asyncio, a home of its own, an environment without keys; and the summary at the end."""

import gc
import itertools
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import settings

from teamwright.processes import program_environment
from tests.support import examples, leftovers, programs
from tests.support.postgres import PostgresServer, run_server

settings.load_profile(examples.QUICK)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background has them ignore Ctrl-C, and every program that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # So does nohup with the end of the terminal. A program does not inherit a handler, so that it gets the default.
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)

# Tests of other things keep files outside of their directories. `tests/sandbox` runs sessions with the default, and
# `make test SANDBOX=required` (or `auto`) runs all tests with it.
SANDBOX = os.environ.get("TEAMWRIGHT_SANDBOX", "off")

BEGAN_S = monotonic()
OUT_OF_TIME = "the time of this run was used up"

CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "OPENROUTER_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which CI runs as many slow tests as it has time for."""
    parser.addoption("--seconds", type=float, default=0, help="start no further test after this many seconds")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would start after the time of the run."""
    limit_s = item.config.getoption("--seconds")
    if limit_s and monotonic() - BEGAN_S > limit_s:
        pytest.skip(OUT_OF_TIME)


def pytest_collection_finish() -> None:
    """Exclude what exists until the end, as the tests and the modules, from the search for cycles of objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def without_garbage_collection() -> Iterator[None]:
    """For tests that make many objects which they keep, as syntax trees: Python would search them again and again."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def own_changeable_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process collects the directories in which commands create files: no test sees those of another one."""
    monkeypatch.setattr(program_environment, "_changeable", {})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def mortal() -> Iterator[None]:
    """Processes that are killed in the middle of an operation, for the state machines of a module."""
    from tests.support.mortal_machine import mortal_processes

    with mortal_processes():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL server, started with the first test that uses it."""
    yield from run_server()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The paths of the tests' homes: numbered here, because `mktemp` reads the whole directory for each number."""
    parent = tmp_path_factory.mktemp("homes", numbered=False)
    return (parent / str(number) for number in itertools.count())


@pytest.fixture(scope="session", autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test leaves a process that runs in its directory."""
    yield
    left = leftovers.end_left_in(tmp_path_factory.getbasetemp())
    assert not left, f"tests left processes: {left}"


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state root and a user's home for this test alone; no test sees a real key or real settings."""
    root = next(homes)
    root.mkdir()
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(root / ".teamwright"))
    for name in [*CREDENTIALS, *(n for n in os.environ if n.startswith(("TEAMWRIGHT_", "CLAUDE", "AWS_")))]:
        if name != "TEAMWRIGHT_HOME":
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", SANDBOX)
    for name in ("CI", "TEAMWRIGHT"):
        monkeypatch.delenv(name, raising=False)
    return root


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give `slow` to all but the first parameter sets of a test with the mark `slow_after`."""
    seen: Counter[str] = Counter()
    for item in items:
        if mark := item.get_closest_marker("slow_after"):
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line each which tests were skipped for want of time or of a program, and what installs it."""
    skipped = terminalreporter.stats.get("skipped", [])
    if late := sum(OUT_OF_TIME in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"{late} tests were not started: {OUT_OF_TIME}")
    if line := programs.summary(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)):
        terminalreporter.write_line(line)
