"""The network of commands: through the proxy, with a question about each host, and in no other way."""

import asyncio
import base64
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.protocol.events import RequestOpened, SandboxRefused
from teamwright.sandbox import network_namespace, network_proxy
from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.network_proxy import HostRefused, NetworkProxy
from teamwright.sandbox.sandbox import probe_implementation
from teamwright.testing import Call, ScriptedModel
from tests.support.programs import needs
from tests.support.repositories import git as make_git
from tests.support.waits import WAIT_S

seen: list[str] = []
"""The paths of the requests that a server received."""


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        seen.append(self.path)
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", f"http://{self.path.removeprefix('/to/')}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = f"page {self.path} for {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args) -> None:
        pass


@pytest.fixture
def server() -> Iterator[int]:
    """The port of an HTTP server on 127.0.0.1."""
    yield from serve(ThreadingHTTPServer(("127.0.0.1", 0), Pages))


@pytest.fixture
def tls_server(tmp_path) -> Iterator[int]:
    """The port of an HTTP server with TLS, whose certificate is tmp_path/work/cert.pem."""
    (tmp_path / "work").mkdir()
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", tmp_path / "work/key.pem", "-out", tmp_path / "work/cert.pem"]
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *files, *names]
    subprocess.run(new, check=True, capture_output=True, timeout=WAIT_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "work/cert.pem", tmp_path / "work/key.pem")
    made = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    made.socket = context.wrap_socket(made.socket, server_side=True)
    yield from serve(made)


def serve(made: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made.server_address[1]
    made.shutdown()
    made.server_close()
    thread.join(WAIT_S)


async def run(
    tmp_path, *commands: str, allow: bool | None = True, **more
) -> tuple[list[str], list[RequestOpened], list]:
    """Run a lead with these commands, all of which rules allow. Return the results, the requests, the refusals."""
    (tmp_path / "work").mkdir(exist_ok=True)
    model = ScriptedModel([*(Call("Bash", {"command": one}) for one in commands), "Done."])
    asked: list[RequestOpened] = []

    async def answer(request: RequestOpened) -> None:
        asked.append(request)
        await (request.allow() if allow else request.deny())

    options = {
        "cwd": tmp_path / "work",
        "home": tmp_path / "state",
        "sandbox": "auto",
        "allowed_tools": ["Bash"],
    } | more
    refused = []
    async with Team("crew", model=model, on_request=answer, **options) as team:
        async for event in team.run("Go.").events():
            if isinstance(event, SandboxRefused):
                refused.append(event)
    return [model.request_text(at) for at in range(1, len(commands) + 1)], asked, refused


def program(tmp_path: Path, url: str) -> str:
    """Return a command that fetches a page with the proxy, whose name does not say that it needs the network."""
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work/fetch.py").write_text(
        "import os, ssl, sys, urllib.request\n"
        "for name in ('no_proxy', 'NO_PROXY'): os.environ.pop(name, None)\n"
        f"file = {str(tmp_path / 'work/cert.pem')!r}\n"
        "context = ssl.create_default_context(cafile=file) if sys.argv[1][4] == 's' else None\n"
        "print(urllib.request.urlopen(sys.argv[1], timeout=60, context=context).read().decode())\n"
    )
    return f"python3 fetch.py {url}"


@pytest.mark.usefixtures("each_implementation")
async def test_the_first_connection_to_a_host_asks_and_later_ones_do_not(tmp_path, server):
    fetch = program(tmp_path, f"http://127.0.0.1:{server}/a")
    [first, second], [request], _ = await run(tmp_path, fetch, fetch)
    assert f"page /a for 127.0.0.1:{server}" in first and "page /a" in second
    assert request.what.startswith(f"connect to 127.0.0.1:{server}\n") and fetch in request.what


@pytest.mark.usefixtures("each_implementation")
async def test_a_host_that_is_not_allowed_is_refused_and_the_refusal_is_an_event(tmp_path, server):
    [text], asked, [event] = await run(tmp_path, program(tmp_path, f"http://127.0.0.1:{server}/a"), allow=False)
    assert "page" not in text and len(asked) == 1
    assert event.refused == (f"connect to 127.0.0.1:{server}",) and "WebFetch(domain:…)" in event.allow


@needs("openssl")
@pytest.mark.usefixtures("each_implementation")
@pytest.mark.slow_after(1)
async def test_tls_is_not_opened(tmp_path, tls_server):
    [text], [_], _ = await run(tmp_path, program(tmp_path, f"https://127.0.0.1:{tls_server}/b"))
    assert "page /b" in text  # the certificate of the server, which the program checked, and no other one


@pytest.mark.usefixtures("each_implementation")
async def test_rules_for_webfetch_decide_about_hosts(tmp_path, server):
    fetch = program(tmp_path, f"http://127.0.0.1:{server}/a")
    rules = ["Bash", f"WebFetch(domain:127.0.0.1:{server})"]
    [text], asked, _ = await run(tmp_path, fetch, allow=False, allowed_tools=rules)
    assert "page /a" in text and asked == []
    [text], asked, _ = await run(tmp_path, fetch, disallowed_tools=["WebFetch(domain:127.0.0.1)"])
    assert "page /a" not in text and asked == []


@pytest.mark.usefixtures("each_implementation")
async def test_there_is_no_way_but_the_proxy(tmp_path, server):
    line = f"exec 3<>/dev/tcp/127.0.0.1/{server} && echo reached"
    [text], asked, _ = await run(tmp_path, line)
    assert "reached" not in text and asked == []


async def test_a_program_of_the_project_is_not_started_in_the_place_of_nsenter_or_bwrap(tmp_path, monkeypatch):
    programs, started = tmp_path / "work/.venv/bin", tmp_path / "started"
    programs.mkdir(parents=True)
    for name in ("nsenter", "bwrap"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {started}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    implementation = probe_implementation()
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: implementation)
    if implementation.bubblewrap is None:
        pytest.skip("bubblewrap does not work here")
    [text], _, _ = await run(tmp_path, "echo ${http_proxy:+proxy}")
    assert text.startswith("proxy") and not started.exists()


@pytest.mark.usefixtures("each_implementation")
async def test_another_program_without_the_key_is_not_served(tmp_path, server):
    line = "echo ${http_proxy##*:} && exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:} && "
    line += f"printf 'GET http://127.0.0.1:{server}/ HTTP/1.1\\r\\n\\r\\n' >&3 && head -1 <&3"
    [text], asked, _ = await run(tmp_path, line)
    assert "407" in text and asked == []


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize(("mode", "code"), [("deny", "no proxy"), ("allow", "no proxy")])
async def test_there_is_a_proxy_only_where_hosts_are_asked_about(tmp_path, mode, code):
    settings = tmp_path / "settings.json"
    settings.write_text(f'{{"sandbox": {{"network": "{mode}"}}}}')
    [text], _, _ = await run(tmp_path, "echo ${http_proxy:-no proxy}", settings_file=settings)
    assert code in text


@pytest.mark.usefixtures("bubblewrap")
async def test_commands_of_a_session_reach_each_others_servers(tmp_path):
    listen = "import socket; s = socket.create_server(('127.0.0.1', 8123)); open('up', 'w'); s.accept()"
    (tmp_path / "work").mkdir()
    (tmp_path / "work/serve.py").write_text(listen)
    texts, _, _ = await run(
        tmp_path,
        "python3 serve.py & echo began",
        "until [ -e up ]; do sleep 0.05; done; exec 3<>/dev/tcp/127.0.0.1/8123 && echo reached",
    )
    assert "reached" in texts[1]


@pytest.mark.usefixtures("each_implementation")
async def test_a_command_inherits_no_descriptor_of_its_network(tmp_path):
    [text], _, _ = await run(tmp_path, "echo ${http_proxy:+proxy}; ls -l /proc/self/fd | grep -c 'net:\\|user:'")
    assert text.startswith("proxy\n0")


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.slow_after(1)
async def test_a_background_command_reaches_hosts_after_its_call(tmp_path, server):
    fetch = program(tmp_path, f"http://127.0.0.1:{server}/a")
    late = f"(until [ -e go ]; do sleep 0.05; done; {fetch} > page; touch fetched) & echo began"
    [_, text], [_], _ = await run(tmp_path, late, "touch go; until [ -e fetched ]; do sleep 0.05; done; cat page")
    assert "page /a" in text


# ── commands that name the network ──────────────────────────────────────────────────────────────────────────────


@needs("curl")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
async def test_the_permission_of_a_command_is_that_of_the_hosts_that_it_names_and_other_hosts_ask(tmp_path, server):
    line = f"curl -sSL http://127.0.0.1:{server}/to/localhost:{server}/b"
    [text], [request], _ = await run(tmp_path, line)
    assert f"page /b for localhost:{server}" in text
    assert request.what.startswith(f"connect to localhost:{server}\n") and line in request.what
    [text], _, [event] = await run(tmp_path, line, permission_mode="dontAsk")
    assert "page" not in text and event.refused == (f"connect to localhost:{server}",)
    seen.clear()
    [text], asked, _ = await run(tmp_path, line, disallowed_tools=["WebFetch(domain:127.0.0.1)"])
    assert "page" not in text and asked == [] and seen == []


@needs("curl")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
async def test_a_port_of_this_machine_that_a_command_names_or_a_person_allowed_opens_no_other_port(tmp_path, server):
    made = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    for other in serve(made):
        named, further = f"localhost:{server}", f"localhost:{other}"
        [text], [request], _ = await run(tmp_path, f"curl -sSL http://{named}/to/{further}/b", allow=False)
        assert "page" not in text and request.what.startswith(f"connect to {further}\n")
        lines = [program(tmp_path, f"http://127.0.0.1:{port}/a") for port in (server, server, other)]
        _, asked, _ = await run(tmp_path, *lines)
        assert [request.input["port"] for request in asked] == [server, other]


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.slow_after(1)
async def test_a_rule_for_this_machine_opens_the_port_that_it_names_and_no_other(tmp_path, server):
    fetch = program(tmp_path, f"http://127.0.0.1:{server}/a")
    [text], [request], _ = await run(tmp_path, fetch, allowed_tools=["Bash", "WebFetch(domain:127.0.0.1)", "WebFetch"])
    assert "page /a" in text and request.always.startswith(f"WebFetch(domain:127.0.0.1:{server}) ")
    other = f"WebFetch(domain:127.0.0.1:{server - 1})"
    [text], asked, _ = await run(tmp_path, fetch, allow=False, allowed_tools=["Bash", other])
    assert "page" not in text and len(asked) == 1


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
async def test_the_remotes_of_a_repository_are_read_once_a_call_and_only_for_a_command_that_names_the_network(
    tmp_path, monkeypatch
):
    git, calls = tmp_path / "bin/git", tmp_path / "calls"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\n{{ echo "$@" >>{calls}; }} 2>/dev/null\nexec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    make_git(tmp_path / "work", "init", "--quiet")
    make_git(tmp_path / "work", "remote", "add", "origin", "https://origin.example/a.git")
    calls.write_text("")
    lines = ["git fetch --dry-run && git fetch --dry-run", "git status", "git remote"]
    _, [request, *_], _ = await run(tmp_path, *lines, allowed_tools=["Bash(git status)", "Bash(git remote)"])
    assert "the network (origin.example; other hosts ask)" in request.what
    assert len([line for line in calls.read_text().splitlines() if line.endswith(" remote -v")]) == 1


@needs("curl")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
async def test_a_command_that_names_the_network_has_no_way_but_the_proxy(tmp_path, server):
    abstract = f"teamwright-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0{abstract}")
        other.listen()
        line = (
            f"curl -sS http://127.0.0.1:{server}/a; (exec 3<>/dev/tcp/127.0.0.1/{server}) && echo by TCP; python3 -c "
        )
        line += f'\'import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + "{abstract}"); print("by a socket")\''
        for more in ({}, {"settings_file": network_setting(tmp_path, "deny")}):
            [text], asked, _ = await run(tmp_path, line, **more)
            assert "page /a" in text and "by TCP" not in text and "by a socket" not in text and asked == []


def network_setting(tmp_path, mode: str) -> Path:
    file = tmp_path / "settings.json"
    file.write_text(f'{{"sandbox": {{"network": "{mode}"}}}}')
    return file


@needs("curl")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
async def test_curl_reaches_a_server_that_an_earlier_command_started(tmp_path, server):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/ours.txt").write_text("OURS")
    start = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler);"
    start += "open('port', 'w').write(str(s.server_port)); s.serve_forever()"
    fetch = "until [ -s port ]; do sleep 0.05; done; curl -sS http://localhost:$(cat port)/ours.txt"
    other = f"curl -sS http://localhost:{server}/a"  # a server of this machine, outside
    [_, ours, theirs], asked, _ = await run(tmp_path, f'python3 -c "{start}" & echo began', fetch, other)
    assert "OURS" in ours and "page /a" in theirs and asked == []


@needs("ssh")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
async def test_ssh_and_git_over_ssh_use_the_proxy_and_ask_about_the_host(tmp_path):
    received: list[bytes] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        received.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lines = [f"ssh -p {port} me@127.0.0.1 true", f"git ls-remote ssh://me@localhost:{port}/a.git"]
    _, asked, _ = await run(tmp_path, *lines)
    assert [text.startswith(b"SSH-2.0-OpenSSH") for text in received] == [True, True] and asked == []
    (tmp_path / "work/deploy.sh").write_text(f"ssh -p {port} me@127.0.0.1 true\n")
    [text], [request], _ = await run(tmp_path, "sh deploy.sh", allow=False)
    assert request.what.startswith(f"connect to 127.0.0.1:{port}\n") and len(received) == len(lines)
    assert f"the sandbox refused to connect to 127.0.0.1:{port}" in text
    server.close()


@pytest.mark.usefixtures("each_implementation")
async def test_a_question_says_which_hosts_ask_no_more_and_what_gets_the_whole_network(tmp_path, each_implementation):
    lines = ['curl "https://example.invalid/$X"', "docker ps", "sh x.sh && npm ping"]
    _, asked, _ = await run(tmp_path, *lines, allow=False, allowed_tools=[])
    texts = [request.what for request in asked]
    assert "with: the whole network" in texts[1]
    if each_implementation == "bubblewrap":
        assert "# in the sandbox with: the network (example.invalid; other hosts ask)" in texts[0]
    else:
        assert "with: the whole network" in texts[0]


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
async def test_the_hosts_of_a_check_are_asked_about(tmp_path, server):
    asked: list[str] = []

    async def answer(request: RequestOpened) -> None:
        asked.append(request.what)
        await request.allow()

    model = ScriptedModel([Call("TaskUpdate", {"taskId": "1", "status": "completed"}), "Done."])
    fetch = program(tmp_path, f"http://127.0.0.1:{server}/a")
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto", "on_request": answer}
    async with Team("crew", model=model, **options) as team:
        await team.tasks.add("make it", check=f"{fetch}; exit 3")
        await team.run("Complete it.")
    assert "page /a" in model.request_text(1) and [text.split("\n")[0] for text in asked] == [
        f"connect to 127.0.0.1:{server}"
    ]


# ── the proxy alone ──────────────────────────────────────────────────────────────────────────────────────────


async def yes(_host: str, _port: int, _is_named: bool) -> bool:
    return True


@pytest.fixture
async def proxy():
    made = NetworkProxy(socket.create_server(("127.0.0.1", 0)))
    await made.start()
    yield made
    await made.close()


async def ask_program(*argv: str, env: dict[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(WAIT_S):
        output, _ = await process.communicate()
    return output.decode()


@needs("curl")
@pytest.mark.parametrize("scheme", ["http", "socks5h", "socks5"])
@pytest.mark.slow_after(1)
async def test_curl_reaches_a_page_by_http_and_socks5(proxy, server, scheme):
    route = proxy.route(yes)
    address = f"{scheme}://teamwright:{route.key}@127.0.0.1:{route.port}"
    url = f"http://127.0.0.1:{server}/c?d=1"
    assert "page /c?d=1" in await ask_program("curl", "-sS", "--noproxy", "", "-x", address, url)
    wrong = f"{scheme}://teamwright:x@127.0.0.1:{route.port}"
    assert "page" not in await ask_program("curl", "-sS", "--noproxy", "", "-x", wrong, url)


@needs("curl")
async def test_the_key_of_a_command_that_has_ended_is_not_served(proxy, server):
    route = proxy.route(yes)
    address = f"http://teamwright:{route.key}@127.0.0.1:{route.port}"
    url = f"http://127.0.0.1:{server}/c"
    assert "page /c" in await ask_program("curl", "-sS", "--noproxy", "", "-x", address, url)
    del route
    assert "407" in await ask_program("curl", "-sSI", "--noproxy", "", "-x", address, url)


async def test_connections_are_limited(proxy, monkeypatch):
    monkeypatch.setattr(network_proxy, "_MAX_CONNECTIONS", 1)
    async with asyncio.timeout(WAIT_S):
        _, first = await asyncio.open_connection("127.0.0.1", proxy.route(yes).port)
        reader, second = await asyncio.open_connection("127.0.0.1", proxy.route(yes).port)
        assert await reader.read() == b""
    first.close()
    second.close()


async def test_the_refused_hosts_are_limited_and_each_is_named_once():
    route = network_proxy.NetworkRoute(1, "k", yes)
    for number in range(network_proxy._MAX_REFUSED * 2):
        for _ in range(2):
            network_proxy._refused(route, f"host-{number}", 80)
    assert len(set(route.refused)) == len(route.refused) == network_proxy._MAX_REFUSED


async def test_a_client_that_resets_its_connection_ends_the_one_to_the_host(proxy):
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    host = await asyncio.start_server(silent, "127.0.0.1", 0)
    route = proxy.route(yes)
    reader, writer = await asyncio.open_connection("127.0.0.1", route.port)
    key = base64.b64encode(f"teamwright:{route.key}".encode()).decode()
    there = f"127.0.0.1:{host.sockets[0].getsockname()[1]}"
    writer.write(f"CONNECT {there} HTTP/1.1\r\nProxy-Authorization: Basic {key}\r\n\r\n".encode())
    async with asyncio.timeout(WAIT_S):
        assert b"200" in await reader.readuntil(b"\r\n\r\n")
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await ended.wait()
    host.close()


async def test_a_closed_proxy_keeps_no_descriptor_of_its_namespaces():
    reading, writing = os.pipe()
    made = NetworkProxy(socket.create_server(("127.0.0.1", 0)), (reading, writing))
    await made.start()
    await made.close()
    for descriptor in (reading, writing):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_child_that_sends_no_namespace_is_ended(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nexec sleep {WAIT_S * 2}\n")
    program.chmod(0o755)
    monkeypatch.setattr(network_namespace.sys, "executable", str(program))
    monkeypatch.setattr(network_namespace, "_TIMEOUT_S", 0.05)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        network_namespace.open_namespace()
    assert time.monotonic() - began < WAIT_S


@needs("curl")
@needs("openssl")
async def test_curl_and_git_use_tunnels(proxy, tls_server, tmp_path):
    route = proxy.route(yes)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **route.variables(), "no_proxy": "", "NO_PROXY": ""}
    url = f"https://127.0.0.1:{tls_server}/d"
    assert "page /d" in await ask_program("curl", "-sS", "--cacert", str(tmp_path / "work/cert.pem"), url, env=env)
    env["GIT_SSL_CAINFO"] = str(tmp_path / "work/cert.pem")
    await ask_program("git", "ls-remote", url, env=env)
    assert "/d/info/refs?service=git-upload-pack" in seen


@pytest.mark.parametrize(
    "host",
    [
        "good.example#.127.0.0.1",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "0.0.0.0",
        "a/b",
        "",
        "224.0.0.1",
        "::1%lo",
    ],
)
async def test_names_that_rules_would_read_otherwise_and_metadata_services_are_refused(host):
    route = network_proxy.NetworkRoute(1, "k", yes)
    with pytest.raises(HostRefused):
        await network_proxy._allowed_address(route, host, 80)


@pytest.mark.parametrize("host", ["::ffff:127.0.0.1", "::FFFF:7f00:1", "127.0.0.1.", "127.0.0.1"])
@pytest.mark.slow_after(1)
async def test_a_rule_about_an_address_decides_about_each_of_its_spellings(host, server, proxy):
    asked: list[str] = []

    async def ask(name: str, _port: int, _is_named: bool) -> bool:
        asked.append(name)
        return False

    with pytest.raises(HostRefused):
        await proxy._connect(proxy.route(ask), host, server)
    assert asked == ["127.0.0.1"]


@pytest.mark.parametrize("family", [0, 1])
async def test_a_name_that_changes_its_address_between_question_and_connection_reaches_no_other_one(
    monkeypatch, server, family
):
    """DNS rebinding: the name is public when it is asked about, and private later."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"]] if family == 0 else [["127.0.0.1"], ["169.254.169.254"]])
    asked: list[str] = []

    async def resolve(host, port, **_more):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in next(answers)]

    async def ask(name: str, _port: int, _is_named: bool) -> bool:
        asked.append(name)
        return name == "evil.example"

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    route = network_proxy.NetworkRoute(1, "k", ask)
    if family == 0:
        assert await network_proxy._allowed_address(route, "evil.example", server) == "93.184.216.34"
        assert asked == ["evil.example"]
    else:
        with pytest.raises(HostRefused):
            await network_proxy._allowed_address(route, "evil.example", server)
        assert asked == ["evil.example", "169.254.169.254"]


async def test_a_name_of_a_private_address_asks_about_the_address():
    asked: list[str] = []

    async def ask(host: str, _port: int, _is_named: bool) -> bool:
        asked.append(host)
        return host != "127.0.0.1"

    with pytest.raises(HostRefused):
        await network_proxy._allowed_address(network_proxy.NetworkRoute(1, "k", ask), "0x7f.1", 80)
    assert asked == ["0x7f.1", "127.0.0.1"]
