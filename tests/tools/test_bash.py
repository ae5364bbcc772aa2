"""Bash with real shells: what comes back, where it ends up, what is left behind."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.processes.process_tree import list_processes
from teamwright.protocol.errors import LimitExceeded, UsageError
from teamwright.subagents.reports import job_end_notice
from teamwright.tools.shell.bash import Bash, BashInput
from teamwright.tools.shell.bash_settings import BashSettings
from tests.support.waits import WAIT_S, wait_until


@pytest.fixture
async def jobs():
    made = BackgroundJobs(grace_s=0.5)
    yield made
    await made.close()


@pytest.fixture
def bash(jobs):
    return Bash(jobs, BashSettings(grace_s=0.3))


def call(command: str, **more) -> BashInput:
    return BashInput(command=command, **more)


def lives(pid: int) -> bool:
    return any(row.pid == pid for row in list_processes())


@pytest.mark.promise("H2")
async def test_output_comes_back_and_a_failure_is_an_error_with_its_code(bash, ctx):
    good = await bash.run(call("echo hi; echo warn >&2"), ctx)
    assert (good.content, good.is_error) == ("hi\nwarn", False)
    bad = await bash.run(call("echo hi; exit 7"), ctx)
    assert bad.is_error and bad.content == "hi\nexit code 7"
    killed = await bash.run(call("kill -SEGV $$"), ctx)
    assert "139 (SIGSEGV)" in killed.content


async def test_a_broken_command_is_a_result_and_does_not_reach_the_wrapping(bash, ctx):
    for broken in ("echo 'unclosed", "if true; then", "cat <<X\nbody", ")", "echo a \\"):
        result = await bash.run(call(broken), ctx)
        assert "pwd" not in result.content and "eval" not in result.content.replace("eval: line", ""), result.content


async def test_the_directory_stays_inside_the_allowed_directories_and_is_told(bash, ctx, work):
    (work / "sub dir" / "deep").mkdir(parents=True)
    moved = await bash.run(call("cd 'sub dir' && cd deep"), ctx)
    assert ctx.workplace.cwd == work / "sub dir" / "deep" and str(work / "sub dir" / "deep") in moved.content
    assert (await bash.run(call("pwd"), ctx)).content == str(work / "sub dir" / "deep")
    out = await bash.run(call("cd / && exit 0"), ctx)
    assert ctx.workplace.cwd == work / "sub dir" / "deep" and "outside the allowed directories" in out.content
    await bash.run(call("cd ../..; (cd /tmp); exit 3"), ctx)
    assert ctx.workplace.cwd == work
    assert not [f for f in os.listdir(ctx.workplace.scratch) if f.endswith(".cwd")]


async def test_no_output_can_pass_for_a_directory(bash, ctx, work):
    await bash.run(call("pwd() { echo /tmp; }; echo 'pwd -P >| /tmp'; printf '/tmp\\n'"), ctx)
    assert ctx.workplace.cwd == work


@pytest.mark.skipif(sys.platform != "linux", reason="the line finds the file in /proc")
@pytest.mark.parametrize(
    "replaced",
    ["mkfifo $f", "ln -s /dev/zero $f", "printf '/\\0x' > $f", "truncate -s 20G $f", "mkdir $f", "printf '\\377' > $f"],
)
async def test_a_command_that_replaces_the_report_of_its_directory_stops_nothing(bash, ctx, work, replaced):
    """The report is a file that the command can write: a pipe in its place would block the session for ever."""
    find = "f=$(tr '\\0' '\\n' < /proc/$$/cmdline | grep -o '/[^ ]*[.]cwd' | head -1)"
    line = f"trap - EXIT; {find}; {replaced}; test -e $f -o -p $f && echo done"
    result = await asyncio.wait_for(bash.run(call(line), ctx), WAIT_S)
    assert "done" in result.content and ctx.workplace.cwd == work


@pytest.mark.promise("F64")
async def test_a_link_out_of_the_allowed_directories_is_no_way_out(bash, ctx, work, tmp_path):
    (work / "way").symlink_to(tmp_path)
    result = await bash.run(call("cd way"), ctx)
    assert ctx.workplace.cwd == work and "outside" in result.content


async def test_a_directory_that_is_gone_is_left_for_an_allowed_one(bash, ctx, work):
    ctx.workplace.cwd = work / "gone"
    result = await bash.run(call("pwd"), ctx)
    assert result.content.startswith(str(work)) and "is gone" in result.content


async def test_a_command_is_decided_on_in_the_directory_that_it_runs_in_also_when_that_one_is_gone(bash, ctx, work):
    ctx.workplace.cwd = work / "a" / "gone"  # from there, ../../x lies inside
    given = call("pwd; cat ../../x")
    assert bash.access(given, ctx).cwd == work
    assert (await bash.run(given, ctx)).content.startswith(str(work))


@pytest.mark.parametrize("becomes", ["gone", "link", "left"])
async def test_a_command_does_not_run_when_its_directory_became_another_one_since_it_was_decided_on(
    bash, ctx, work, tmp_path, becomes
):
    place = work / "a" / "b"
    place.mkdir(parents=True)
    ctx.workplace.cwd = place
    given = call("touch ../../ran")
    assert bash.access(given, ctx).cwd == place
    if becomes == "left":
        ctx.workplace.cwd = work
    else:
        shutil.rmtree(work / "a")
    if becomes == "link":
        (tmp_path / "far" / "b").mkdir(parents=True)
        (work / "a").symlink_to(tmp_path / "far")
    result = await bash.run(given, ctx)
    assert result.is_error and "nothing was run" in result.content
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.promise("H2", "F40")
async def test_a_timeout_keeps_the_output_says_its_limit_and_ends_everything(bash, ctx):
    result = await bash.run(call("echo $$; sleep 600 & sleep 600", timeout=700), ctx)
    pid = int(result.content.split("\n")[0])
    assert result.is_error and "0.7 s" in result.content and "run_in_background" in result.content
    assert not [row for row in list_processes() if row.group == pid]


async def test_small_timeouts_are_meant_in_seconds_and_large_ones_are_bounded(bash, ctx):
    assert (await bash.run(call("sleep 0.3; echo done", timeout=60), ctx)).content == "done"
    assert (await bash.run(call("echo done", timeout=99_000_000), ctx)).content == "done"


@pytest.mark.promise("F66")
async def test_credentials_of_model_services_are_not_in_the_environment_of_commands(bash, ctx, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENROUTER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-hush-1234")
    ctx.workplace.env["MINE"] = "1"
    out = (await bash.run(call("env"), ctx)).content
    assert "hush" not in out and "MINE=1" in out
    assert {"TEAMWRIGHT=1", "GIT_TERMINAL_PROMPT=0", "PAGER=cat", "TERM=dumb"} <= set(out.split("\n"))


async def test_git_status_does_not_write_the_index(bash, ctx, work):
    await bash.run(
        call("git init -q && echo 1 > a && git add a && git update-index -q --refresh && touch -d 2001-01-01 a"), ctx
    )
    index = work / ".git" / "index"
    before = index.read_bytes()
    assert (await bash.run(call("git status --short"), ctx)).content == "A  a"
    assert index.read_bytes() == before


SECRETS = {
    "STRIPE_API_KEY": "hush",
    "GH_TOKEN": "hush",
    "PGPASSWORD": "hush",
    "client_secret": "hush",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/hush.json",
    "npm_config__authToken": "hush",
    "COMPOSER_AUTH": "hush",
    "PLAIN_NAME": "ghp_hush0123456789abcdef",
    "HEADER": "Bearer eyJhbGciOihush.eyJzdWIiOiIxMjM0.c2ln",
    "PEM": "-----BEGIN OPENSSH PRIVATE KEY-----\nhush",
}
HARMLESS = {
    "SSH_AUTH_SOCK": "/tmp/agent.1",
    "TOKENIZERS_PARALLELISM": "false",
    "MAX_OUTPUT_TOKENS": "32000",
    "USE_KEY": "1",
    "KEYBOARD": "us",
    "PASSWORD_STORE_DIR": "/home/me/store",
    "PROJECT": "sk-my-long-project-name",
    "GIT_CONFIG_KEY_0": "user.name",
    "AUTHOR": "me",
}


@pytest.mark.finding("P17")
async def test_credentials_of_other_services_are_not_in_the_environment_of_commands(bash, jobs, ctx, monkeypatch):
    for name, value in (SECRETS | HARMLESS).items():
        monkeypatch.setenv(name, value)
    out = (await bash.run(call("env"), ctx)).content
    assert "hush" not in out
    assert {f"{name}={value}" for name, value in HARMLESS.items()} <= set(out.split("\n"))
    ctx.workplace.env["OWN_TOKEN"] = "set on purpose"
    passing = Bash(jobs, BashSettings(grace_s=0.3, pass_env=["GH_TOKEN", "STRIPE_*", "PLAIN_NAME"]))
    out = (await passing.run(call("env"), ctx)).content
    assert {"GH_TOKEN=hush", "STRIPE_API_KEY=hush", "OWN_TOKEN=set on purpose"} <= set(out.split("\n"))
    assert out.count("hush") == 3
    typed = (await bash.run(call("env").mark_typed_by_person(), ctx)).content
    assert "GH_TOKEN=hush" in typed


@pytest.mark.promise("K9")
async def test_git_neither_pages_nor_opens_an_editor(bash, ctx):
    script = (
        "git init -q . && git config user.email a@b.c && git config user.name a && git commit -q --allow-empty -m one "
        "&& git commit --amend --allow-empty && git log"
    )
    result = await bash.run(call(script, timeout=30_000), ctx)
    assert not result.is_error and "one" in result.content


@pytest.mark.promise("H2", "P6")
async def test_long_output_is_cut_in_the_middle_and_whole_in_a_file(bash, ctx):
    result = await bash.run(call("seq 1 20000"), ctx)
    assert result.content.startswith("1\n2\n") and result.content.endswith("19999\n20000")
    assert len(result.content) < 30_500
    whole = Path(result.facts["output_file"])
    assert str(whole) in result.content and whole.read_text().split() == [str(n) for n in range(1, 20001)]


async def test_what_a_command_leaves_running_becomes_a_job_and_the_call_returns(bash, jobs, ctx):
    result = await bash.run(call("(echo late; exec sleep 600) & echo now"), ctx)
    [job] = jobs.list()
    assert "now" in result.content and job.id in result.content and not result.is_error
    assert "late" in job.file.read_text()
    await jobs.stop(job.id)
    assert job.state == "stopped" and not [row for row in list_processes() if row.group == job.pid]


@pytest.mark.finding("3F8")
async def test_what_a_command_left_without_our_pipe_is_a_job_until_it_ends(bash, jobs, ctx, work):
    os.mkfifo(work / "go")
    ended: asyncio.Queue[Job] = asyncio.Queue()
    jobs.follow_ends(ended.put_nowait)
    for more in ({}, {"run_in_background": True}):
        await bash.run(call("nohup sh -c 'read x < go' >/dev/null 2>&1 &", **more), ctx)
        [job] = jobs.running()
        async with asyncio.timeout(WAIT_S):
            await asyncio.to_thread((work / "go").write_text, "on\n")
            assert await ended.get() is job and job.state == "completed"


@pytest.mark.finding("3F8")
async def test_a_timeout_ends_a_background_command_and_its_notice_says_so(bash, jobs, ctx):
    ended: asyncio.Queue[Job] = asyncio.Queue()
    jobs.follow_ends(ended.put_nowait)
    await bash.run(call("exec sleep 600", timeout=1, run_in_background=True), ctx)
    async with asyncio.timeout(WAIT_S):
        job = await ended.get()
    assert (job.state, job.timed_out_s) == ("stopped", 1) and "its time limit of 1 s" in job_end_notice(job).summary
    assert not lives(job.pid)


@pytest.mark.promise("F62")
async def test_a_daemon_that_a_command_left_ends_with_the_session(ctx, tmp_path):
    jobs = BackgroundJobs(session=tmp_path / "session")
    result = await Bash(jobs).run(
        call("setsid sh -c 'echo $$ > pid; exec sleep 600' >/dev/null 2>&1 & until [ -s pid ]; do :; done; cat pid"),
        ctx,
    )
    pid = int(result.content.split("\n")[0])
    assert jobs.list() == [] and "until the session ends" in result.content and lives(pid)
    await jobs.close()
    assert not lives(pid)


@pytest.mark.promise("P5", "F62")
async def test_interrupting_the_foreground_ends_it_and_leaves_the_background(bash, jobs, ctx, work):
    await bash.run(call("exec sleep 600", run_in_background=True), ctx)
    [job] = jobs.list()
    os.mkfifo(work / "fifo")
    running = asyncio.create_task(bash.run(call("echo $$ > fifo; sleep 600"), ctx))
    async with asyncio.timeout(WAIT_S):
        pid = int(await asyncio.to_thread((work / "fifo").read_text))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not lives(pid) and lives(job.pid) and job.state == "running"


async def test_a_background_job_can_be_read_while_it_runs_and_its_end_is_told_once(ctx, work):
    told: asyncio.Queue[Job] = asyncio.Queue()
    jobs = BackgroundJobs()
    jobs.follow_ends(told.put_nowait)
    os.mkfifo(work / "go")
    os.mkfifo(work / "ready")
    script = "echo first; echo x > ready; read x < go; echo second; exit 4"
    result = await Bash(jobs).run(call(script, run_in_background=True), ctx)
    [job] = jobs.list("ada")
    assert job.id in result.content and str(job.file) in result.content and jobs.list("bob") == []
    async with asyncio.timeout(WAIT_S):
        await asyncio.to_thread((work / "ready").read_text)
        await asyncio.to_thread(wait_until, lambda: "first" in job.file.read_text())
        await asyncio.to_thread((work / "go").write_text, "on\n")
        ended = await told.get()
    assert ended is job and (job.state, job.exit_code) == ("failed", 4)
    assert job.file.read_text() == "first\nsecond\n" and oct(job.file.stat().st_mode)[-3:] == "600"
    assert told.empty()
    await jobs.close()


async def test_closing_ends_all_jobs_and_tells_nobody(ctx):
    told: list[Job] = []
    jobs = BackgroundJobs(grace_s=0.2)
    jobs.follow_ends(told.append)
    for _ in range(3):
        await Bash(jobs).run(call("trap '' TERM; sleep 600", run_in_background=True), ctx)
    pids = [job.pid for job in jobs.list()]
    await jobs.close()
    await jobs.close()
    assert told == [] and not [row for row in list_processes() if row.group in pids]
    with pytest.raises(LimitExceeded):
        await Bash(jobs).run(call("true", run_in_background=True), ctx)


@pytest.mark.promise("P6")
async def test_the_number_of_running_jobs_is_bounded(ctx):
    jobs = BackgroundJobs(max_running=2, grace_s=0.2)
    for _ in range(2):
        await Bash(jobs).run(call("exec sleep 600", run_in_background=True), ctx)
    with pytest.raises(LimitExceeded):
        await Bash(jobs).run(call("exec sleep 600", run_in_background=True), ctx)
    await jobs.close()


async def test_an_unknown_job_is_named_with_the_nearest(jobs):
    with pytest.raises(UsageError):
        jobs.get("b000000")


async def test_access_and_read_only_come_from_the_command_and_the_directory(jobs, ctx, work):
    seen = []
    tool = Bash(jobs, proves_read_only=lambda command, cwd: seen.append((command, cwd)) or command == "ls")
    one = call("ls")
    access = tool.access(one, ctx)
    assert (access.command, access.cwd) == ("ls", work)
    assert tool.is_read_only(one) and seen == [("ls", work)]
    assert not tool.is_read_only(call("ls", run_in_background=True)) and not Bash(jobs).is_read_only(one)


async def test_it_works_with_a_plain_posix_shell(bash, ctx, work, monkeypatch):
    plain = shutil.which("dash") or "/bin/sh"
    monkeypatch.setattr("teamwright.tools.shell.command_line.plain_shell", lambda: plain)
    (work / "a b").mkdir()
    result = await bash.run(call("cd 'a b'; exit 5"), ctx)
    assert "exit code 5" in result.content and ctx.workplace.cwd == work / "a b"
