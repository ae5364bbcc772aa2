"""A headless run on a server that reads the prompt for long: stderr says how far it is."""

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.support.slow_server import SlowReply, props
from tests.support.waits import WAIT_S
from tests.ui.program import Program

pytestmark = pytest.mark.finding("R9")


@pytest.mark.parametrize(
    ("read", "facts", "said"),
    [((0, 41), props(1), "reads the prompt 41 %"), ((), {}, "waits for the answer to begin")],
)
def test_a_run_says_what_is_known_of_an_answer_that_has_not_begun(tmp_path, repo, read, facts, said):
    slow = SlowReply(*read)
    with LoopbackModel.in_thread([slow.raw], facts=facts) as server:
        program = Program(repo, tmp_path / "home")
        program.settings(providers={"house": {"base_url": f"{server.url}/v1", "api": "openai-chat"}})
        run = program.start("-p", "Hi.", "--verbose", "--model", "house/small")
        try:
            seen = next((line for line in run.stderr if "lead  " in line), "")
        finally:
            slow.go.set()
        out, err = run.communicate(timeout=WAIT_S)
    assert seen.split() == ["lead", *said.split()]
    assert (run.returncode, out) == (0, "Done.\n"), err
