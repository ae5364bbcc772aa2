"""What leaves the program: the key to its own service alone, and no word to anybody who was not asked for."""

import json
import os
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Raw, Status
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.program import KEY, Mark, Program, told_results

AUDIT = """
import json, os, sys
_net = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg", "socket.bind")
_run = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")
_log = os.open(os.environ["AUDIT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def _hook(event, args):
    if event in _net:
        what = args[0] if event == "socket.getaddrinfo" else args[1] if len(args) > 1 else args[0]
        where = f"{what[0]}:{what[1]}" if isinstance(what, tuple) else str(what)
    elif event in _run:
        where = str(args[0])
    else:
        return
    os.write(_log, (json.dumps([event, where]) + "\\n").encode())
sys.addaudithook(_hook)
"""


class Audited:
    """A program whose every connection and child is written down by the interpreter itself."""

    def __init__(self, program: Program, place: Path) -> None:
        self.program, self.log = program, place / "audit"
        (place / "site").mkdir()
        (place / "site" / "sitecustomize.py").write_text(AUDIT)
        program.env |= {"PYTHONPATH": str(place / "site"), "AUDIT_LOG": str(self.log)}

    def spoken_to(self) -> set[str]:
        """Addresses that were looked up, connected or sent to; sockets that lie in the home are not addresses."""
        events = [json.loads(line) for line in self.log.read_text().splitlines()]
        return {where for event, where in events if event.startswith("socket.") and not where.startswith("/")}

    def started(self) -> set[str]:
        events = [json.loads(line) for line in self.log.read_text().splitlines()]
        return {Path(where).name for event, where in events if not event.startswith("socket.")}


@pytest.mark.promise("K10")
@pytest.mark.usefixtures("unconfined")
@pytest.mark.slow
def test_a_run_speaks_to_its_model_and_to_nobody_else(tmp_path, repo):
    spawn = ("Agent", {"description": "x", "prompt": "work", "name": "ada"})
    calls = [spawn, ("Bash", {"command": "ls"}), ("WebFetch", {"url": "https://example.com/x", "prompt": "?"})]

    def players(body: dict) -> Answer:
        if teammate_of(body) == "ada":
            return Answer("Here.")
        return Answer("Done.") if told_results(body) else Answer(tools=calls)

    with LoopbackModel.in_thread(players) as server:
        audited = Audited(Program(repo, tmp_path / "home", server.url), tmp_path)
        done = audited.program.run("-p", "hi")
        host = server.url.removeprefix("http://")
    assert done.returncode == 0, done.stderr
    assert audited.spoken_to() <= {host, "127.0.0.1", ""}, audited.spoken_to()
    assert host in audited.spoken_to()
    assert audited.started() <= {"bash", "git"}, "the children are the agent's own command and git, which reads here"


@pytest.mark.slow_after(1)
@pytest.mark.promise("K10")
@pytest.mark.parametrize(
    "args",
    [("--help",), ("--version",), ("demo", "--pace", "0"), ("models",), ("sessions",), ("teams",), ("trust", "--show")],
)
def test_what_needs_no_model_opens_no_connection(tmp_path, repo, args):
    audited = Audited(Program(repo, tmp_path / "home"), tmp_path)
    done = audited.program.run(*args)
    assert done.returncode == 0, done.stderr
    assert audited.spoken_to() == set()


@pytest.mark.promise("K10", "K3")
@pytest.mark.slow
def test_looking_for_local_servers_asks_this_machine_only(tmp_path, repo):
    audited = Audited(Program(repo, tmp_path / "home", env={"ANTHROPIC_API_KEY": ""}), tmp_path)
    assert audited.program.run("-p", "hi").returncode == 3
    audited.program.run("doctor")
    hosts = {where.rpartition(":")[0] or where for where in audited.spoken_to()}
    assert hosts <= {"127.0.0.1", "localhost", "::1"}


@pytest.mark.promise("K10")
def test_a_proxy_is_not_asked_for_what_is_on_this_machine(tmp_path, repo):
    with LoopbackModel.in_thread() as server, LoopbackModel.in_thread() as proxy:
        names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
        program = Program(repo, tmp_path / "home", server.url, dict.fromkeys(names, proxy.url))
        done = program.run("-p", "hi")
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert proxy.connections == 0


OTHERS = {
    "ANTHROPIC_AUTH_TOKEN": "token-9Xk2Lm4Qw8",
    "OPENROUTER_API_KEY": "sk-or-5Tb7Nc3Ve1",
    "OPENAI_API_KEY": "sk-oa-6Yh1Uj2Ik9",
    "MY_OWN_KEY": "own-3Rf5Tg7Yh2",
}


def environments(root: int) -> dict[int, tuple[str, str]]:
    """Command line and environment of every process below this one."""
    parents, found = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    for pid in below:
        try:
            found[pid] = tuple(
                (Path("/proc") / str(pid) / name).read_text(errors="replace") for name in ("cmdline", "environ")
            )
        except OSError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.promise("F66")
@pytest.mark.slow
@pytest.mark.usefixtures("unconfined")
def test_no_key_is_in_a_file_on_a_stream_in_an_argument_or_in_a_childs_environment(tmp_path, repo):
    mark = Mark(tmp_path / "running")
    calls = [
        ("Bash", {"command": "env; set; export; cat /proc/self/environ"}),
        ("Bash", {"command": "sleep 60", "run_in_background": True}),
        ("Bash", {"command": f"echo > {mark.path}; sleep 60"}),
    ]
    secrets = [KEY, *OTHERS.values()]
    with LoopbackModel.in_thread([Answer(tools=calls)]) as server:
        program = Program(repo, tmp_path / "home", server.url, dict(OTHERS))
        program.settings(providers={"mine": {"base_url": server.url, "key_env": "MY_OWN_KEY"}})
        process = program.start("-p", "hi", "--dangerously-skip-permissions", "--verbose")
        mark.wait()
        seen = environments(process.pid)
        process.terminate()
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 143, err
    assert len(seen) >= 3, "both commands ran"
    for pid, (arguments, environ) in seen.items():
        for secret in secrets:
            assert secret not in arguments
            assert pid == process.pid or secret not in environ, f"{arguments} has {secret}"
    assert not any(secret in out + err for secret in secrets)
    searched = 0
    for path in program.home.rglob("*"):
        if path.is_file():
            searched += 1
            assert not any(secret.encode() in path.read_bytes() for secret in secrets), path
    assert searched > 4
    [environment] = [text for text in map(str, outputs(program)) if "PATH=" in text]
    assert "TEAMWRIGHT=1" in environment


def outputs(program: Program) -> list[str]:
    """The results of the tool calls in the transcript."""
    blocks = [b for line in program.transcript()[1:] for b in line["message"]["content"] if b["type"] == "tool_result"]
    return [b["content"] if isinstance(b["content"], str) else b["content"][0]["text"] for b in blocks]


@pytest.mark.slow_after(1)
@pytest.mark.promise("F66")
@pytest.mark.parametrize(
    "reply",
    [
        Status(401, f"the key {KEY} is wrong"),
        Status(500, "", body=f"<pre>x-api-key: {KEY}</pre>".encode()),
        Status(400, f"header x-api-key: {KEY}", headers={"request-id": KEY}),
        Raw([f'event: error\ndata: {{"type":"error","error":{{"type":"api_error","message":"{KEY}"}}}}\n\n'.encode()]),
        Raw([f"not a stream: {KEY}".encode()], content_type="text/plain"),
    ],
    ids=["refusal", "page", "echo", "event", "nonsense"],
)
def test_a_service_that_says_the_key_back_is_quoted_without_it(tmp_path, repo, reply):
    with LoopbackModel.in_thread([reply]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(retries=0)
        done = program.run("-p", "hi", "--output-format", "stream-json", "--verbose", "--debug", "--report", "r.md")
    assert done.returncode in {1, 3}
    assert KEY not in done.stdout + done.stderr + (repo / "r.md").read_text()
    for path in program.home.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.promise("F66")
def test_a_mistake_of_ours_is_kept_in_a_file_without_secrets(tmp_path, repo):
    broken = tmp_path / "site"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import sys\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'teamwright.ui.headless.run':\n            import os\n"
        "            raise RuntimeError('broken with ' + os.environ['ANTHROPIC_API_KEY'])\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    program = Program(repo, tmp_path / "home", env={"PYTHONPATH": str(broken)})
    done = program.run("-p", "hi", "--append-system-prompt", f"a secret {KEY}")
    assert done.returncode == 70
    assert "[bug]" in done.stderr
    [crash] = program.home.glob("debug/crash-*.txt")
    assert str(crash) in done.stderr
    assert crash.stat().st_mode & 0o777 == 0o600
    assert "RuntimeError" in crash.read_text()
    assert KEY not in crash.read_text() + done.stderr
