"""Workers: members on other machines, started by the lead's orders and reached through the database alone."""

import asyncio
import subprocess
import sys

import pytest
from msgspec.structs import replace

from teamwright.database.team_rows import session_lease
from teamwright.database.worker_orders import (
    StartOrders,
    WorkerStatus,
    list_workers,
    misfits,
    register_worker,
    worker_lease,
)
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Budget
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.directory_identity import directory_identity
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.shutdown import kill
from teamwright.teams.spawn import spawn
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.worktrees.commit_bundle import bundle_result
from tests.database.spaces import holder
from tests.database.workers import OFFER, QUINCE, SCRIPT, Machine, order, scripted, until
from tests.support.repositories import git, make_repository
from tests.support.waits import WAIT_S


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_teammate_works_on_another_machine_and_its_files_come_back_as_commits(tmp_path, space, own_home):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n", "two.txt": "2\n"})
    script = tmp_path / "machines.toml"
    script.write_text(SCRIPT)
    machine = Machine(tmp_path, space, "gpu1", "--label", "gpu", "--slots", "2")
    options = Options(
        cwd=repository,
        model=f"scripted:{script}",
        permission_mode="bypassPermissions",
        database=space,
        backend="remote:gpu",
    )
    try:
        async with open_session(options) as session:
            answers = await session.run([text_block("Count them.")])
            status = session.team.find("ada")
            ref = f"refs/teamwright/{session.team.directory}/ada"
            assert status is not None and str(status.shown_location) == "remote:gpu gpu1", machine.log.read_text()
        assert "There are 2." in answers.text, machine.log.read_text()
    finally:
        await asyncio.to_thread(machine.end)
    assert git(repository, "show", f"{ref}:counted.txt").strip() == "counted"


@pytest.mark.slow
async def test_a_worker_says_which_files_of_a_member_stay_with_it(tmp_path, space, own_home):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n", "two.txt": "2\n"})
    script = tmp_path / "machines.toml"
    script.write_text(SCRIPT.replace("> counted.txt", "> counted.txt; echo KEY=1 > .env"))
    machine = Machine(tmp_path, space, "gpu1", "--slots", "2")
    options = Options(
        cwd=repository,
        model=f"scripted:{script}",
        permission_mode="bypassPermissions",
        database=space,
        backend="remote",
    )
    try:
        async with open_session(options) as session:
            await session.run([text_block("Count them.")])
    finally:
        await asyncio.to_thread(machine.end)
    said = machine.log.read_text()
    assert "uncommitted files of ada stay in " in said and ".env (private)" in said
    assert "/ada" not in git(repository, "for-each-ref", "refs/teamwright/")


QUEUE_SCRIPT = r"""
[script]
name = "queue"

[[agent.ada.turn]]
when.task = "Write ada.txt"
[[agent.ada.turn.call]]
tool = "Bash"
input = { command = "echo ada > ada.txt; echo ada > one.txt", description = "write" }
[[agent.ada.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", status = "completed" }

[[agent.bob.turn]]
when.task = "Write bob.txt"
[[agent.bob.turn.call]]
tool = "Bash"
input = { command = "cat ada.txt one.txt > bob.txt; git log --format=%s", description = "read" }
[[agent.bob.turn.call]]
tool = "TaskUpdate"
input = { taskId = "2", status = "completed" }

[[agent."*".otherwise]]
say = "Nothing more from me."
"""


@pytest.mark.slow
@pytest.mark.promise("J6")
@pytest.mark.finding("I4")
async def test_the_commits_of_a_member_elsewhere_are_integrated_and_the_next_one_begins_with_them(
    tmp_path, space, own_home
):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n"})
    script = tmp_path / "queue.toml"
    script.write_text(QUEUE_SCRIPT)
    machine = Machine(tmp_path, space, "gpu1", "--slots", "2")
    options = Options(cwd=repository, model=f"scripted:{script}", permission_mode="bypassPermissions", database=space)
    try:
        async with open_session(options) as session:
            team, tasks = session.team, session.team.tasks
            for name in ("ada", "bob"):
                await spawn(team, SpawnSpec(prompt="Wait for a task.", name=name, isolation="remote"))
            await tasks.create("Write ada.txt", "", by=LEAD, metadata={"for": ["ada"]})
            await tasks.create("Write bob.txt", "", by=LEAD, blocked_by=["1"], metadata={"for": ["bob"]})
            async with asyncio.timeout(WAIT_S):
                await wait_for_finished(team, 2)
            entries = await team.stores.integration(team.directory).entries()
            branch = session.integration.open().branch
        assert [(entry.member, entry.state) for entry in entries] == [("ada", "merged"), ("bob", "merged")]
    finally:
        await asyncio.to_thread(machine.end)
    assert git(repository, "show", f"{branch}:bob.txt").split() == ["ada", "ada"], machine.log.read_text()
    assert git(repository, "status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_member_of_a_killed_machine_crashes_once_and_continues_its_conversation_on_another_one(
    tmp_path, space, own_home
):
    first = Machine(tmp_path, space, "gpu1")
    options = scripted(tmp_path, space)
    machines = [first]
    try:
        async with open_session(options) as session:
            ada = await spawn(session.team, QUINCE)
            await until(lambda: ada.state is MemberState.IDLE)
            await asyncio.to_thread(first.kill)
            await until(lambda: ada.state in ENDED_STATES and ada.end_processed)
            notices = [entry for entry in await session.team.mailbox(LEAD).unread() if "crashed" in entry.text]
            assert len(notices) <= 1
            machines.append(await asyncio.to_thread(Machine, tmp_path, space, "gpu2"))
            again = await spawn(session.team, replace(QUINCE, prompt="Which word?"))
            assert str(again.shown_location) == "remote gpu2"
            await until(lambda: again.state is MemberState.IDLE and again.turns > 0)
            transcript = next(machines[1].home.glob("projects/*/*/agents/ada.jsonl")).read_text()
            assert "quince" in transcript and "Which word?" in transcript
    finally:
        for machine in machines:
            await asyncio.to_thread(machine.end)


async def wait_for_finished(team, count: int) -> None:
    while sum(task.is_finished for task in await team.tasks.all()) < count:
        team.changed.clear()
        await team.changed.wait()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": "2.0"}, "it runs Teamwright 1.0, and the lead runs 2.0"),
        ({"label": "tpu"}, "it has no label tpu"),
        ({"keys": ("B_KEY",)}, "it has no model key of the lead's names (B_KEY)"),
    ],
)
def test_a_worker_that_does_not_fit_is_refused_with_the_reason(change, reason):
    assert misfits(order(**change), WorkerStatus(OFFER, (), is_alive=True, beat_s=0)) == [reason]
    assert misfits(order(label="gpu1", keys=("A_KEY",)), WorkerStatus(OFFER, (), is_alive=True, beat_s=0)) == []
    assert misfits(order(), WorkerStatus(OFFER, ("a@t", "b@t"), is_alive=True, beat_s=0)) == [
        "it has no free slot of 2"
    ]
    assert misfits(order(), WorkerStatus(OFFER, (), is_alive=False, beat_s=90)) == ["it is not running"]


@pytest.mark.promise("J6")
async def test_an_order_is_claimed_by_one_worker_that_fits_and_has_a_free_slot(space):
    other = replace(OFFER, name="cpu1", labels=(), slots=1)
    async with holder(space, worker_lease("gpu1")) as (first, _), holder(space, worker_lease("cpu1")) as (second, _):
        await register_worker(first.database, OFFER)
        await register_worker(second.database, other)
        gpu, cpu = StartOrders(first.database), StartOrders(second.database)
        wanted = {await gpu.add(order(member=f"m{n}", label="gpu" if n == 0 else "")) for n in range(6)}
        claims = await asyncio.gather(*[gpu.claim(OFFER) for _ in range(4)], *[cpu.claim(other) for _ in range(4)])
        claimed = [one for one in claims if one is not None]
        assert len(claimed) == 3 and len({one.id for one in claimed}) == 3
        assert {one.id for one in claimed} <= wanted
        assert {status.offer.name: status.free_slots for status in await list_workers(first.database)} == {
            "gpu1": 0,
            "cpu1": 0,
        }
        assert await gpu.note_ended(next(one.id for one in claimed if one.label == "gpu"), "gpu1", "")
        assert await gpu.claim(OFFER) is not None


@pytest.mark.promise("J6")
async def test_the_commits_of_a_member_stay_in_the_database_until_the_lead_has_stored_them(space):
    async with holder(space, worker_lease("gpu1")) as (first, _):
        await register_worker(first.database, OFFER)
        orders = StartOrders(first.database)
        id = await orders.add(order())
        await orders.claim(OFFER)
        await orders.remove(id)
        assert (await orders.read(id)).state == "claimed", "only an ended order is removed"
        await orders.note_ended(id, "gpu1", "", b"a bundle")
        assert [(await orders.read_result(id)).bundle for _ in range(2)] == [b"a bundle"] * 2
        await orders.remove(id)
        assert await orders.read(id) is None and await orders.read_all([id]) == {}


@pytest.mark.promise("J6")
async def test_ended_orders_are_removed_unless_they_have_commits_or_their_lead_runs(space):
    async with holder(space, worker_lease("gpu1")) as (first, _), holder(space, session_lease("led")) as _lead:
        await register_worker(first.database, OFFER)
        orders = StartOrders(first.database)
        kinds = {"left": None, "led": None, "with commits": b"a bundle"}
        ids = {session: await orders.add(order(session=session)) for session in kinds}
        for session, result in kinds.items():
            assert await orders.claim(OFFER) is not None
            await orders.note_ended(ids[session], "gpu1", "", result)
        waiting = await orders.add(order(session="left"))
        await orders.prune()
        assert set(await orders.read_all([*ids.values(), waiting])) == {ids["led"], ids["with commits"], waiting}
        assert await orders.ended_with_result("with commits") == [ids["with commits"]]


@pytest.mark.promise("J6")
@pytest.mark.slow
async def test_a_resumed_lead_fetches_the_commits_of_members_that_ended_without_it(tmp_path, space, own_home):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n"})
    script = tmp_path / "machines.toml"
    script.write_text(SCRIPT)
    options = Options(cwd=repository, model=f"scripted:{script}", database=space)
    async with open_session(options) as session:
        id = session.id
    elsewhere = tmp_path / "elsewhere"
    git(repository, "clone", "-q", ".", str(elsewhere))
    base = git(elsewhere, "rev-parse", "HEAD")
    (elsewhere / "two.txt").write_text("2\n")
    assert bundle_result(elsewhere, directory_identity(elsewhere), "team", "ada", base)[0]
    ours, others = (
        "refs/teamwright/team/ada",
        ("refs/teamwright/team/bob", "refs/teamwright/integrated/teamwright/team/bob"),
    )
    for ref in others:  # a worker that says more than it may
        git(elsewhere, "update-ref", ref, ours)
    git(elsewhere, "bundle", "create", "-q", str(tmp_path / "bundle"), ours, *others, f"^{base}")
    bundle = (tmp_path / "bundle").read_bytes()
    async with holder(space, worker_lease("gpu1")) as (worker, _):
        await register_worker(worker.database, OFFER)
        orders = StartOrders(worker.database)
        number = await orders.add(order(session=id, team="team", member="ada"))
        assert await orders.claim(OFFER) is not None
        await orders.note_ended(number, "gpu1", "", bundle)
        async with open_session(replace(options, resume=id)):
            assert git(repository, "show", f"{ours}:two.txt") == "2"
            assert git(repository, "for-each-ref", "--format=%(refname)", "refs/teamwright/") == ours
        assert await orders.read(number) is None


@pytest.mark.slow
@pytest.mark.promise("J6")
def test_a_job_over_two_machines_is_completed_although_one_of_them_is_killed(postgres):
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.machines", "--pause", "0.5"],
        capture_output=True,
        text=True,
        timeout=WAIT_S * 8,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL of the machine" in done.stdout and "8 of 8 parts are completed" in done.stdout
    assert " 0 of them unread" in done.stdout


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_member_outlives_its_worker_and_a_resumed_lead_continues_it_from_its_transcript(
    tmp_path, space, own_home
):
    script = tmp_path / "machines.toml"
    script.write_text(SCRIPT)
    model, mode = f"scripted:{script}", "bypassPermissions"
    machine = Machine(tmp_path, space, "gpu1")
    try:
        async with open_session(Options(cwd=tmp_path, model=model, permission_mode=mode, database=space)) as session:
            ada = await spawn(session.team, QUINCE)
            await until(lambda: ada.state is MemberState.IDLE)
            machine.process.kill()
            await asyncio.to_thread(machine.process.wait, WAIT_S)
            machine = await asyncio.to_thread(Machine, tmp_path, space, "gpu1")
            assert ada.state is MemberState.IDLE
            id = session.id
        again = Options(cwd=tmp_path, model=model, permission_mode=mode, database=space, resume=id)
        async with open_session(again) as session:
            resumed = session.team.find("ada")
            assert resumed is not None and str(resumed.shown_location) == "remote gpu1"
            transcript = next(machine.home.glob("projects/*/*/agents/ada.jsonl")).read_text()
            assert transcript.count("quince") == 1
    finally:
        await asyncio.to_thread(machine.end)


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_call_of_a_member_on_another_machine_is_asked_and_answered_at_the_lead(tmp_path, space, own_home):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n", "two.txt": "2\n"})
    script = tmp_path / "machines.toml"
    script.write_text(SCRIPT)
    asked: list[str] = []

    def answer(request):
        asked.append(request.member)
        return request.allow()

    machine = Machine(tmp_path, space, "gpu1")
    options = Options(cwd=repository, model=f"scripted:{script}", database=space, on_request=answer)
    try:
        async with open_session(options) as session:
            answers = await session.run([text_block("Count them.")])
        assert asked == ["ada"]
        assert "There are 2." in answers.text
    finally:
        await asyncio.to_thread(machine.end)


@pytest.mark.slow
@pytest.mark.promise("J6", "G3")
async def test_a_deny_rule_of_the_lead_holds_for_a_member_on_another_machine(tmp_path, space, own_home):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n"})
    script = tmp_path / "machines.toml"
    script.write_text(SCRIPT)
    machine = Machine(tmp_path, space, "gpu1")
    model, mode = f"scripted:{script}", "bypassPermissions"
    options = Options(
        cwd=repository, model=model, permission_mode=mode, database=space, disallowed_tools=("Bash(git ls-files *)",)
    )
    try:
        async with open_session(options) as session:
            await session.run([text_block("Count them.")])
        transcript = next(machine.home.glob("projects/*/*/agents/ada.jsonl")).read_text()
        assert "Bash(git ls-files" in transcript, transcript
        assert not list(tmp_path.rglob("counted.txt"))
    finally:
        await asyncio.to_thread(machine.end)


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_member_on_another_machine_is_killed_and_frees_its_slot(tmp_path, space, own_home):
    machine = Machine(tmp_path, space, "gpu1", "--slots", "1")
    options = scripted(tmp_path, space)
    spec = SpawnSpec(prompt="Wait.", name="ada", isolation="remote")
    try:
        async with open_session(options) as session, holder(space, "session/reader") as (stores, _):
            ada = await spawn(session.team, spec)
            with pytest.raises(CannotStart, match="no worker can start ben") as refused:
                await spawn(session.team, replace(spec, name="ben"))
            assert "it has no free slot of 1" in str(refused.value.looked_at)
            await kill(session.team, ada, "a test")
            await until(lambda: ada.state in ENDED_STATES and ada.end_processed)
            assert [worker.free_slots for worker in await list_workers(stores.database)] == [1]
            again = await spawn(session.team, replace(spec, name="ben"))
            assert str(again.shown_location) == "remote gpu1"
    finally:
        await asyncio.to_thread(machine.end)


STOP = r"""
[script]
name = "stop"

[[agent.lead.turn]]
[[agent.lead.turn.call]]
tool = "Agent"
input = { name = "ada", description = "wait", prompt = "Wait.", isolation = "remote" }
[[agent.lead.turn.call]]
tool = "SendMessage"
input = { to = "ada", summary = "you may stop", message = { type = "shutdown_request", reason = "all is done" } }

[[agent.ada.turn]]
when = { from = '^team-lead$', text = 'shutdown_request' }
capture_text = ['"?request_?[iI]d"?[=:] ?"(?P<request>[^"]+)"']
[[agent.ada.turn.call]]
tool = "SendMessage"
[agent.ada.turn.call.input]
to = "team-lead"
summary = "agreed"
message = { type = "shutdown_response", request_id = "{{request}}", approve = true }

[[agent."*".otherwise]]
say = "Nothing more from me."
"""


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_member_on_another_machine_agrees_to_a_stop_request(tmp_path, space, own_home):
    script = tmp_path / "stop.toml"
    script.write_text(STOP)
    machine = Machine(tmp_path, space, "gpu1")
    options = Options(cwd=tmp_path, model=f"scripted:{script}", permission_mode="bypassPermissions", database=space)
    try:
        async with open_session(options) as session:
            await session.run([text_block("Start.")])
            ada = session.team.find("ada")
            assert ada is None or ada.state in ENDED_STATES
        log = "".join(path.read_text() for path in own_home.glob(".teamwright/projects/*/*/events.jsonl"))
        assert "shutdown_approved" in log
    finally:
        await asyncio.to_thread(machine.end)


@pytest.mark.slow
@pytest.mark.promise("J6", "H10")
async def test_a_cap_of_the_run_holds_over_members_on_two_machines(tmp_path, space, own_home, monkeypatch):
    # A member ends its turn after six equal calls: the cap is less than what two members use until then.
    call = Answer(tools=[("Bash", {"command": "true", "description": "count"})], usage={"input_tokens": 5000})
    with LoopbackModel.in_thread(lambda _request: call) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789abcdef")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        machines = [Machine(tmp_path, space, name, "--slots", "1") for name in ("gpu1", "gpu2")]
        mode = "bypassPermissions"
        options = Options(cwd=tmp_path, permission_mode=mode, database=space, budget=Budget(tokens=58_000))
        try:
            async with open_session(options) as session:
                spec = SpawnSpec(prompt="Count.", name="ada", isolation="remote")
                await spawn(session.team, spec)
                await spawn(session.team, replace(spec, name="ben"))
                tracker = session.agent_factory.budget_tracker
                await until(lambda: tracker.spent_cap == "tokens")
                used = {name: usage.tokens for name, usage in tracker.with_subagents.items()}
            assert used["ada"] and used["ben"]
            assert sum(used.values()) <= 58_000
        finally:
            for machine in machines:
                await asyncio.to_thread(machine.end)
