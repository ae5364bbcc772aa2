"""Telemetry of a running session: off by default, on by the person's own word, and never in the way."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from teamwright import CannotStart, Notice, Team
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.telemetry.receiver import Receiver, attributes, otlp_receiver

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

SPAN = ("Bash", {"command": "echo span=$TRACEPARENT", "description": "show the span"})


def team_with(tmp_path: Path, env: dict[str, str], *answers: Any, **more: Any) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    script = iter(answers)
    given: dict[str, Any] = {"permission_mode": "bypassPermissions", "env": {"HOME": str(tmp_path), **env}, **more}
    model = ScriptedModel(lambda _request: next(script, "ok"))
    return Team("crew", cwd=tmp_path / "work", home=tmp_path / "home", model=model, **given)


def receiver_env(receiver: Receiver) -> dict[str, str]:
    return {"TEAMWRIGHT_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}


def wait_for(receiver: Receiver, name: str) -> Any:
    with receiver.came:
        assert receiver.came.wait_for(lambda: receiver.named(name), WAIT_S), [span.name for span in receiver.spans]
    return receiver.named(name)[0]


@pytest.mark.finding("S5")
async def test_spans_and_metrics_of_a_session_arrive_and_its_commands_know_their_span(tmp_path):
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with otlp_receiver() as receiver:
        env = receiver_env(receiver) | {"TRACEPARENT": caller}
        async with team_with(tmp_path, env, SPAN, "done") as team:
            await asyncio.wait_for(team.run("Go."), WAIT_S)
            text = team.session.lead.agent.conversation.path.read_text()
            mark = team.session.log.path.parent / "telemetry.json"
        tool, root = wait_for(receiver, "execute_tool Bash"), wait_for(receiver, "session")
        assert f"span=00-{tool.trace_id.hex()}-{tool.span_id.hex()}-01" in text
        assert tool.trace_id.hex() == caller[3:35] and root.parent_span_id.hex() == caller[36:52]
        assert "teamwright.cut_off" not in attributes(root)
        assert {"gen_ai.client.token.usage", "teamwright.active_time"} & set(receiver.metrics)
        assert not mark.exists(), "a process that ended in order leaves nothing open"


@pytest.mark.finding("S5")
async def test_nothing_is_sent_and_nothing_is_loaded_without_a_word_of_the_person(tmp_path):
    with otlp_receiver() as receiver:
        (tmp_path / "work" / ".teamwright").mkdir(parents=True)
        (tmp_path / "work" / ".teamwright" / "settings.json").write_text('{"otel": true}')
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        async with team_with(tmp_path, env, SPAN, "done", trust=True) as team:
            await asyncio.wait_for(team.run("Go."), WAIT_S)
            text = team.session.lead.agent.conversation.path.read_text()
            assert "span=" in text and "span=00-" not in text
        assert receiver.headers == []


def test_a_session_without_telemetry_loads_nothing_of_it():
    code = "import sys, teamwright.session.open_session; print(any('opentelemetry' in name for name in sys.modules))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert made.stdout.strip() == "False"


@pytest.mark.finding("S5")
async def test_a_receiver_of_traces_alone_gets_no_metrics(tmp_path):
    with otlp_receiver() as receiver:
        env = receiver_env(receiver) | {"OTEL_METRICS_EXPORTER": "none"}
        async with team_with(tmp_path, env, "done") as team:
            await asyncio.wait_for(team.run("Go."), WAIT_S)
        await asyncio.to_thread(wait_for, receiver, "session")
        assert not receiver.metrics


@pytest.mark.finding("S5")
async def test_the_persons_own_setting_switches_it_on_and_the_variable_wins(tmp_path):
    own = tmp_path / "settings.json"
    own.write_text('{"otel": true}')
    with otlp_receiver() as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        async with team_with(tmp_path, env, "done", settings_file=own) as team:
            await asyncio.wait_for(team.run("Go."), WAIT_S)
        wait_for(receiver, "session")
        sent = len(receiver.headers)
        env["TEAMWRIGHT_OTEL"] = "0"
        async with team_with(tmp_path, env, "done", settings_file=own, replace=True) as team:
            await asyncio.wait_for(team.run("Go."), WAIT_S)
        assert len(receiver.headers) == sent


@pytest.mark.finding("S5")
async def test_a_receiver_that_is_gone_or_hangs_ends_no_run_and_is_left_behind(tmp_path):
    with otlp_receiver() as receiver:
        receiver.gate.clear()
        for env in (
            receiver_env(receiver),
            {"TEAMWRIGHT_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        ):
            async with asyncio.timeout(WAIT_S), team_with(tmp_path, env, SPAN, "done", replace=True) as team:
                assert (await team.run("Go.")).text == "done"


@pytest.mark.finding("S5")
async def test_a_bad_address_is_an_error_at_the_start(tmp_path):
    env = {"TEAMWRIGHT_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}
    with pytest.raises(CannotStart, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        async with team_with(tmp_path, env, "done"):
            pass


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.telemetry.test_sessions import SPAN, team_with

async def main():
    async with team_with(Path({place!r}), {env!r}, SPAN, "done") as team:
        await team.run("Go.")
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.finding("S5")
@pytest.mark.slow_after(1)
async def test_the_root_of_a_killed_process_is_sent_by_the_next_one(tmp_path):
    with otlp_receiver() as receiver:
        env = receiver_env(receiver)
        root = str(Path(__file__).parents[2])
        code = KILLED.format(root=root, place=str(tmp_path), env=env)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=os.environ)
        await asyncio.to_thread(wait_for, receiver, "execute_tool Bash")
        process.kill()
        assert await asyncio.wait_for(process.wait(), WAIT_S) == -signal.SIGKILL
        given: dict[str, Any] = {"home": tmp_path / "home", "env": {"HOME": str(tmp_path), **env}}
        async with Team.resume("crew", model=ScriptedModel(lambda _request: "ok"), **given) as team:
            await asyncio.wait_for(team.run("Again."), WAIT_S)
        with receiver.came:
            assert receiver.came.wait_for(lambda: len(receiver.named("session")) == 2, WAIT_S)
        ids = {span.span_id for span in receiver.spans}
        assert all(not span.parent_span_id or span.parent_span_id in ids for span in receiver.spans), "no orphan"
        cut = [attributes(span).get("teamwright.cut_off", False) for span in receiver.named("session")]
        assert sorted(cut) == [False, True]


@pytest.mark.finding("S5")
async def test_a_person_is_told_once_that_a_receiver_does_not_take_the_spans(tmp_path, monkeypatch):
    monkeypatch.setattr("teamwright.telemetry.follower.DELAY_S", 0.01)
    told: list[str] = []
    with otlp_receiver(status=400) as receiver:
        async with team_with(tmp_path, receiver_env(receiver), "one", "two") as team:
            came = asyncio.Event()

            def note(_number: int, event: Any) -> None:
                if isinstance(event, Notice) and event.text.startswith("telemetry:"):
                    told.append(event.text)
                    came.set()

            team.session.log.subscribe(note)
            await asyncio.wait_for(team.run("Go."), WAIT_S)
            await asyncio.wait_for(came.wait(), WAIT_S)
            await asyncio.wait_for(team.run("Again."), WAIT_S)
            session = team.session.id
    assert len(told) == 1 and f"teamwright trace {session}" in told[0]
