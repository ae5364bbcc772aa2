"""The servers of the suite, and the outcomes of its tests, which `make real OUTCOMES=1` writes for the docs."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests.real import outcomes
from tests.real.forcing_proxy import Call, ForcingProxy
from tests.real.local_server import Server

WRITES = os.environ.get("TEAMWRIGHT_REAL_OUTCOMES") == "1"
_seen: list[outcomes.Outcome] = []


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with two slots."""
    made = Server(slots=2)
    yield made
    made.end()


@pytest.fixture
def force(server: Server) -> Iterator[Callable[[Mapping[str, Sequence[Call]]], ForcingProxy]]:
    """Start proxies in front of the server, each with a plan: the calls of each agent."""
    made: list[ForcingProxy] = []

    def start(plan: Mapping[str, Sequence[Call]]) -> ForcingProxy:
        made.append(ForcingProxy(server.url, plan))
        return made[-1]

    yield start
    for proxy in made:
        proxy.close()


@pytest.fixture
def record_figures(record_property: Callable[[str, object], None]) -> Callable[[Mapping[str, int]], None]:
    """Record the usage of a request for the table, and print it."""

    def record(usage: Mapping[str, int]) -> None:
        print({key: value for key, value in usage.items() if key.endswith("_tokens")})
        record_property("fresh", usage["input_tokens"])
        record_property("cached", usage["cache_read_input_tokens"])

    return record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]):
    """Note what became of a test with a feature. Its figures are the properties that it recorded."""
    report: pytest.TestReport = yield
    mark = item.get_closest_marker("feature")
    if mark is not None and report.when == "call" and report.outcome != "skipped":
        wire = item.callspec.params["wire"] if hasattr(item, "callspec") else "chat"
        service = mark.kwargs.get("service", outcomes.LLAMA)
        figures = {name: int(str(value)) for name, value in report.user_properties}
        _seen.append(outcomes.Outcome(service, mark.args[0], wire, report.outcome, figures))
    return report


def pytest_sessionfinish() -> None:
    if WRITES and _seen:
        outcomes.store(_seen)
