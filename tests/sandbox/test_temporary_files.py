"""Temporary files: commands and file tools see the same files below `/tmp`, with each implementation."""

import os
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.testing import Call, ScriptedModel
from tests.support.repositories import make_repository

NAME = f"teamwright-test-{os.getpid()}.txt"


@pytest.fixture
def in_system_tmp():
    """A file of the system's /tmp that no agent made."""
    path = Path("/tmp") / f"other-{NAME}"
    path.write_text("of a person")
    yield path
    path.unlink(missing_ok=True)


async def run(tmp_path, *calls, **more) -> list[str]:
    """Run a lead that makes these calls; return the results in their order."""
    (tmp_path / "work").mkdir(exist_ok=True)
    model = ScriptedModel([*calls, "Done."])
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"} | more
    options.setdefault("permission_mode", "acceptEdits")
    async with Team("crew", model=model, **options) as team:
        await team.run("Go.")
    return [model.request_text(at) for at in range(1, len(calls) + 1)]


def bash(command: str, **more) -> Call:
    return Call("Bash", {"command": command, **more})


ANY = {"allowed_tools": ["Bash"]}


async def test_a_file_that_a_command_writes_to_tmp_is_read_by_the_read_tool(tmp_path, bubblewrap):
    results = await run(
        tmp_path, bash(f"echo by the command > /tmp/{NAME}"), Call("Read", {"file_path": f"/tmp/{NAME}"}), **ANY
    )
    assert "by the command" in results[1]
    assert not Path("/tmp", NAME).exists()


async def test_a_file_that_the_write_tool_puts_into_tmp_is_read_by_commands_and_searches(tmp_path, bubblewrap):
    path = f"/tmp/{NAME}"
    results = await run(
        tmp_path,
        Call("Write", {"file_path": path, "content": "by the tool\n"}),
        bash(f"cat {path}"),
        bash(f"cat {path} && echo more >> {path}"),
        Call("Grep", {"pattern": "more", "path": "/tmp", "output_mode": "content"}),
        Call("Glob", {"pattern": "/tmp/*.txt"}),
        Call("Edit", {"file_path": path, "old_string": "by the", "new_string": "with the"}),
        **ANY,
    )
    assert "by the tool" in results[1] and "by the tool" in results[2]
    assert "more" in results[3] and NAME in results[4]
    assert not Path(path).exists()


async def test_a_background_command_and_its_reader_see_one_tmp(tmp_path, bubblewrap):
    path = f"/tmp/{NAME}"
    results = await run(
        tmp_path,
        bash(f"echo from the background > {path}", run_in_background=True),
        bash(f"until [ -s {path} ]; do sleep 0.05; done"),
        Call("Read", {"file_path": path}),
        **ANY,
    )
    assert "from the background" in results[2]


async def test_a_sub_agent_and_its_caller_see_one_tmp(tmp_path, bubblewrap):
    path = f"/tmp/{NAME}"
    results = await run(
        tmp_path,
        Call("Agent", {"prompt": "Write it.", "description": "d", "subagent_type": "general-purpose"}),
        Call("Write", {"file_path": path, "content": "by the sub-agent"}),
        "Written.",
        Call("Read", {"file_path": path}),
        **ANY,
    )
    assert "by the sub-agent" in "".join(results)


async def test_a_line_that_only_reads_sees_tmp_without_a_question(tmp_path, bubblewrap):
    path = f"/tmp/{NAME}"
    results = await run(
        tmp_path,
        Call("Write", {"file_path": path, "content": "kept"}),
        bash(f"cat {path}"),
        permission_mode="acceptEdits",
    )
    assert "kept" in results[1]


async def test_a_file_that_only_the_system_has_in_tmp_is_read_after_the_usual_question(
    tmp_path, bubblewrap, in_system_tmp
):
    read = Call("Read", {"file_path": str(in_system_tmp)})
    assert "of a person" not in (await run(tmp_path, read))[0]
    allowed = await run(tmp_path, read, allowed_tools=[f"Read(/{in_system_tmp})"])
    assert "of a person" in allowed[0]


async def test_a_write_to_a_file_that_only_the_system_has_in_tmp_asks(tmp_path, bubblewrap, in_system_tmp):
    calls = [
        Call("Read", {"file_path": str(in_system_tmp)}),
        Call("Write", {"file_path": str(in_system_tmp), "content": "x"}),
    ]
    await run(tmp_path, *calls, allowed_tools=["Read"])
    assert in_system_tmp.read_text() == "of a person"


@pytest.mark.parametrize(
    "target", ["secret.txt", f"/tmp/other-{NAME}"], ids=["in the project", "in the directory of the system"]
)
@pytest.mark.slow_after(1)
async def test_a_link_in_tmp_gives_no_access_to_other_files(tmp_path, bubblewrap, in_system_tmp, target):
    (tmp_path / "secret.txt").write_text("of a person")
    real = tmp_path / target
    results = await run(
        tmp_path,
        bash(f"ln -s {real} /tmp/link"),
        Call("Read", {"file_path": "/tmp/link"}),
        bash("cat /tmp/link"),
        Call("Write", {"file_path": "/tmp/link", "content": "changed"}),
        allowed_tools=["Bash(ln *)"],
    )
    assert "of a person" not in results[1] + results[2]
    assert real.read_text() == "of a person"


async def test_a_rule_about_tmp_names_the_sessions_files(tmp_path, bubblewrap):
    path = f"/tmp/{NAME}"
    write = Call("Write", {"file_path": path, "content": "x"})
    assert "Write(//tmp/**) forbids" in (await run(tmp_path, write, disallowed_tools=["Write(//tmp/**)"]))[0]


async def test_a_file_of_the_project_below_tmp_stays_the_projects(tmp_path, bubblewrap):
    if not str(tmp_path).startswith("/tmp/"):
        pytest.skip("the tests run elsewhere")
    path = tmp_path / "work/a.txt"
    await run(tmp_path, Call("Write", {"file_path": str(path), "content": "here"}))
    assert path.read_text() == "here"


async def test_a_change_of_a_checkout_below_tmp_by_an_agent_in_a_worktree_is_refused(tmp_path, bubblewrap):
    if not str(tmp_path).startswith("/tmp/"):
        pytest.skip("the tests run elsewhere")
    checkout = make_repository(tmp_path / "work", {"a.txt": "one\n"})
    calls = [Call("Write", {"file_path": f"{checkout}/b.txt", "content": "x"}), bash(f"echo x > {checkout}/b.txt")]
    for result in await run(tmp_path, *calls, worktree=True, permission_mode="bypassPermissions"):
        assert "b.txt is outside your worktree; your copy of it is" in result


async def test_under_landlock_commands_and_file_tools_share_the_directory_of_tmpdir(tmp_path, landlock):
    calls = iter([bash(f"echo by the command > $TMPDIR/a; echo x > /tmp/{NAME}"), "read", "Done."])

    def play(_request) -> Call | str:
        call = next(calls)
        if call != "read":
            return call
        [directory] = (tmp_path / "state").rglob("tmp")
        return Call("Read", {"file_path": f"{directory}/a"})

    model = ScriptedModel(play)
    (tmp_path / "work").mkdir()
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto", **ANY}
    async with Team("crew", model=model, **options) as team:
        await team.run("Go.")
    assert "by the command" in model.request_text(2)
    assert not Path("/tmp", NAME).exists()
