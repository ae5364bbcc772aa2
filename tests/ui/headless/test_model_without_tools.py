"""A headless run with a model that does not call tools: it says so, and `--tools ''` is the word for wanting it."""

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import Program

PROPS = {"default_generation_settings": {"n_ctx": 64_000}, "chat_template_caps": {"supports_tools": False}}


def test_a_run_says_that_the_model_calls_no_tools_unless_none_were_wanted(tmp_path, repo):
    with LoopbackModel.in_thread(lambda body: "Done.", facts={"/props": PROPS}) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(providers={"house": {"base_url": server.url, "api": "openai-chat"}})
        told = program.run("-p", "hi", "--model", "house/smollm2")
        wanted = program.run("-p", "hi", "--model", "house/smollm2", "--tools", "")
    assert (told.returncode, wanted.returncode) == (0, 0), told.stderr + wanted.stderr
    assert "house/smollm2 does not call tools (the server)" in told.stderr
    assert "does not call tools" not in wanted.stderr
    assert all("tools" not in body for body in server.bodies)
