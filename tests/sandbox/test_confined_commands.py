"""Commands in the policies *read* and *work*, run for real by bubblewrap."""

import errno
import os
import shlex
import socket
from pathlib import Path

import pytest

from teamwright.sandbox import command_policy
from teamwright.sandbox.command_needs import CommandNeeds, command_needs
from teamwright.sandbox.policy import SESSION_VARIABLES, NetworkAccess, SandboxSettings
from teamwright.sandbox.sandbox import find_implementation
from tests.support.programs import needs

pytestmark = [needs("bwrap")]


@pytest.fixture(autouse=True)
def implementation():
    if find_implementation().bubblewrap is None:
        pytest.skip("bubblewrap cannot make namespaces here")


def test_a_reading_command_reads_its_directories_and_changes_nothing(confined):
    done = confined.read("cat a.txt; touch b.txt; echo x > a.txt; rm a.txt; ls")
    assert done.stdout.startswith("A\n") and done.returncode == 0
    assert sorted(path.name for path in confined.work.iterdir()) == [".git", "a.txt"]
    assert (confined.work / "a.txt").read_text() == "A\n"


@pytest.mark.parametrize("file", ["home/notes.txt", "home/.ssh/id_ed25519", "state/inbox.json"])
def test_a_reading_command_does_not_see_what_is_outside(confined, file):
    done = confined.read(f"cat {confined.work.parent / file}")
    assert "No such file" in done.stdout and done.returncode == 1


def test_outputs_of_earlier_commands_can_be_read(confined):
    assert confined.read(f"cat {confined.state}/output/*").stdout == "OUTPUT"
    assert confined.work_in(f"cat {confined.state}/output/*").stdout == "OUTPUT"


def test_a_working_command_changes_its_directories_and_caches_only(confined):
    done = confined.work_in("echo new > b.txt; echo c > ~/.cache/c; echo x > ~/notes.txt; echo x > ~/.bashrc")
    assert (confined.work / "b.txt").read_text() == "new\n" and (confined.home / ".cache/c").exists()
    assert (confined.home / "notes.txt").read_text() == "NOTES" and not (confined.home / ".bashrc").exists()
    assert done.stdout.count("Read-only file system") == 2


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/config",
        "rm -rf .git/hooks",
        "echo x > .git/hooks/pre-commit",
        "mv .git .g && mkdir .git",
        "mv .git/config .git/c",
        "ln -f a.txt .git/config",
        "ln -s /tmp .git/hooks/x",
    ],
)
@pytest.mark.slow_after(3)
def test_a_working_command_cannot_change_what_git_runs(confined, command):
    done = confined.work_in(command)
    assert done.returncode != 0
    assert (confined.work / ".git/config").read_text() == "[core]\n\tbare = false\n"
    assert list((confined.work / ".git/hooks").iterdir()) == []


def test_a_command_that_names_it_may_change_the_git_configuration(confined):
    assert confined.work_in("echo x > .git/config", needs=CommandNeeds(git_config=True)).returncode == 0
    assert confined.work_in("echo x > .git/hooks/y", needs=CommandNeeds(git_config=True)).returncode != 0


def test_credentials_are_seen_only_by_a_command_that_names_them(confined):
    read = "cat ~/.ssh/id_ed25519"
    assert "PRIVATE-KEY" not in confined.work_in(read).stdout
    named = CommandNeeds(credentials=frozenset({".ssh"}))
    assert confined.work_in(read, needs=named).stdout == "PRIVATE-KEY"


def test_a_path_that_a_rule_denies_is_not_read(confined):
    (confined.work / ".env").write_text("SECRET=1")
    done = confined.work_in("cat .env; cat ./a.txt", denied=[str(confined.work / ".env")])
    assert "SECRET" not in done.stdout and done.stdout.endswith("A\n")


@pytest.mark.slow
def test_the_network_is_reached_only_by_a_command_that_names_it_as_a_whole(confined):
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert confined.work_in(connect).returncode != 0
        assert confined.read(connect).returncode != 0
        assert confined.work_in(connect, needs=CommandNeeds(network=True)).returncode != 0  # only by the proxy
        whole = CommandNeeds(network=True, whole_network=True)
        assert confined.work_in(connect, needs=whole).returncode == 0
        allowed = SandboxSettings(network=NetworkAccess.ALLOW)
        assert confined.work_in(connect, settings=allowed).returncode == 0


def test_sockets_in_tmp_and_of_programs_cannot_be_reached(confined):
    path = str(confined.home / "agent.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        assert "refused" in confined.work_in(f'python3 -c "{code}"').stdout.lower()


def test_tmp_is_the_sessions_and_stays_from_command_to_command(confined):
    name = f"note-{os.getpid()}"
    confined.work_in(f"echo kept > /tmp/{name}")
    assert confined.work_in(f"cat /tmp/{name}").stdout == "kept\n"
    assert not os.path.exists(f"/tmp/{name}")
    confined.read("echo gone > /tmp/other")
    assert confined.work_in("ls /tmp").stdout.split()[0] == name


def test_files_of_the_runtime_are_written_in_both_policies(confined):
    file = confined.state / "output/c2.cwd"
    file.touch()
    confined.read(f"pwd >| {file}", own_files=(str(file),))
    assert file.read_text() == f"{confined.work}\n"


def test_no_process_outside_is_seen_or_signalled(confined):
    done = confined.work_in(f"kill -9 {os.getpid()}; ls -d /proc/[0-9]* | wc -l; cat /proc/1/environ | tr '\\0' '\\n'")
    assert "No such process" in done.stdout
    assert int(done.stdout.split("\n")[1]) < 8


def test_no_new_namespace_and_no_capability(confined):
    done = confined.work_in("unshare -Ur true; grep CapEff /proc/self/status; mount -t tmpfs x /mnt")
    assert "Operation not permitted" in done.stdout and "0000000000000000" in done.stdout
    assert done.returncode != 0


def test_further_paths_of_the_settings_are_used(confined):
    more = confined.work.parent / "more"
    more.mkdir()
    settings = SandboxSettings(write=(str(more),))
    assert confined.work_in(f"touch {more}/x", settings=settings).returncode == 0
    confined.work_in(f"touch {more}/y")
    assert (more / "x").exists() and not (more / "y").exists()
    reads = SandboxSettings(read=(str(confined.home / "notes.txt"),))
    assert confined.read("cat ~/notes.txt", settings=reads).stdout == "NOTES"


def test_dev_shm_and_the_devices_work(confined):
    done = confined.work_in("echo x > /dev/shm/y && cat /dev/shm/y && head -c 2 /dev/urandom | wc -c; echo > /dev/null")
    assert done.stdout == "x\n2\n" and done.returncode == 0


def test_a_session_in_the_root_directory_has_its_own_tmp_devices_and_processes(confined):
    confined.work = Path("/")
    for run in (confined.read, confined.work_in):
        done = run("ls -d /proc/[0-9]* | wc -l; ls /tmp | wc -l; cat /dev/null; cat ~/.ssh/id_ed25519")
        assert int(done.stdout.split()[0]) < 8 and "PRIVATE-KEY" not in done.stdout


def test_programs_of_the_path_inside_a_cache_cannot_be_replaced(confined):
    programs = confined.home / ".deno/bin"
    programs.mkdir(parents=True)
    (programs / "deno").write_text("real")
    (confined.home / ".local/share/pnpm").mkdir(parents=True)
    confined.env["PATH"] = f"{programs}:{confined.env['PATH']}"
    done = confined.work_in("echo evil > ~/.deno/bin/deno; echo evil > ~/.local/share/pnpm/pnpm; echo c > ~/.deno/c")
    assert (programs / "deno").read_text() == "real" and (confined.home / ".deno/c").exists()
    assert not (confined.home / ".local/share/pnpm/pnpm").exists(), done.stdout


def test_each_file_of_a_variable_with_a_list_of_credentials_is_hidden(confined):
    (confined.home / "cluster").write_text("TOKEN")
    confined.env["KUBECONFIG"] = f"/nowhere:{confined.home}/cluster"
    assert "TOKEN" not in confined.work_in("cat ~/cluster").stdout


def test_a_worktree_in_the_hidden_state_is_used_and_its_protected_files_stay(confined):
    confined.work = confined.state / "worktrees/ann"
    (confined.work / ".claude").mkdir(parents=True)
    (confined.work / ".claude/settings.json").write_text("{}")
    (confined.work / "a.txt").write_text("A\n")
    done = confined.work_in("cat a.txt; echo b > b.txt; echo x > .claude/settings.json; cat ../../inbox.json")
    assert done.stdout.startswith("A\n") and "MAIL" not in done.stdout
    assert (confined.work / "b.txt").exists() and (confined.work / ".claude/settings.json").read_text() == "{}"
    assert confined.read("cat a.txt; echo c > c.txt").stdout.startswith("A\n")
    assert not (confined.work / "c.txt").exists()


def test_a_worktree_in_a_hidden_state_below_a_directory_of_the_system_is_read(confined, monkeypatch):
    """With the state in /opt/tools, say."""
    monkeypatch.setattr(command_policy, "SYSTEM", (*command_policy.SYSTEM, str(confined.state.parent)))
    confined.work = confined.state / "worktrees/ann"
    confined.work.mkdir(parents=True)
    (confined.work / "a.txt").write_text("A\n")
    assert confined.read("cat a.txt").stdout.startswith("A\n")


def test_the_variables_of_a_command_act_on_it_alone(confined):
    """LD_DEBUG makes the loader of each program write a file, as LD_PRELOAD would run code in it."""
    loaded = confined.work / "loaded"
    confined.env |= {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(loaded)}
    assert confined.work_in("exec bash -c :").returncode == 0
    programs = {line for file in confined.work.glob("loaded.*") for line in file.read_text().splitlines()}
    assert any("bash" in line for line in programs) and not any("bwrap" in line for line in programs)


def test_a_command_has_each_variable_as_it_was_given(confined):
    given = {"EMPTY": "", "LINES": "a\nb=c", "OPTION": "--bind", "BYTES": "\udcff", "UMLAUT": "ä", "LC_ALL": "C.UTF-8"}
    confined.env |= given
    done = confined.work_in("exec env -0 > variables")
    assert done.returncode == 0, done.stdout
    content = (confined.work / "variables").read_bytes().decode("utf-8", "surrogateescape")
    found = dict(entry.split("=", 1) for entry in content.split("\0") if entry)
    changed = {"PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", *SESSION_VARIABLES}
    expected = {name: value for name, value in confined.env.items() if name not in changed}
    assert {name: value for name, value in found.items() if name not in changed} == expected
    assert found["TMPDIR"] == "/tmp" and found.keys().isdisjoint(SESSION_VARIABLES)


@pytest.mark.parametrize("variable", [("A", "x\0--bind\0/\0/"), ("A=B", "x")])
def test_a_variable_that_no_process_can_have_is_refused(confined, variable):
    confined.env |= dict([variable])
    with pytest.raises(ValueError, match=r"null byte|environment variable name"):
        confined.work_in("true")


@pytest.mark.finding("3H5")
def test_a_reading_command_sees_programs_and_not_the_files_of_the_user_beside_them(confined, monkeypatch):
    home = confined.home
    for name in (".local/bin", "papers/bin", "tools/bin", "code/bin", ".manager/bin"):
        (home / name).mkdir(parents=True)
        confined.env["PATH"] = f"{home / name}:{confined.env['PATH']}"
    shown = {".local/lib/x", ".local/share/pipx/x", "tools/lib/x", ".manager/versions/x"}
    kept = {".local/share/chat/x", ".local/state/x", "papers/x", "code/x", "code/lib/x"}
    for name in (*shown, *kept, "code/.git/HEAD", ".local/share/reader/run"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("TEXT\n")
    (home / ".local/share/reader/run").write_text("#!/bin/sh\necho ran\n")
    (home / ".local/share/reader/run").chmod(0o755)
    (home / ".local/bin/reader").symlink_to("../share/reader/run")
    for name in shown:
        assert confined.read(f"cat ~/{name}").stdout == "TEXT\n", name
    for name in kept:
        assert "TEXT" not in confined.read(f"cat ~/{name}").stdout, name
    assert confined.read("reader").stdout == "ran\n"


@pytest.mark.finding("3H6")
def test_a_reading_command_makes_no_request_to_a_file_system(confined, each_implementation):
    copy_extents = 0xC0189436  # FIDEDUPERANGE; file systems have others by which a file open to be read is changed
    code = (
        "import fcntl, os\nat = os.open('a.txt', os.O_RDONLY)\n"
        "fcntl.ioctl(at, 0x80086601, bytes(8))\n"  # FS_IOC_GETFLAGS
        f"try: fcntl.ioctl(at, {copy_extents}, bytes(24))\nexcept OSError as problem: print(problem.errno)"
    )
    line = f"python3 -c {shlex.quote(code)}"
    assert confined.read(line).stdout == f"{errno.ENOTTY}\n"
    assert confined.work_in(line).stdout != f"{errno.ENOTTY}\n"


@pytest.mark.finding("3H7")
def test_a_variable_that_switches_credentials_off_hides_no_device(confined, each_implementation):
    confined.env |= {"KUBECONFIG": "/dev/null", "NPM_CONFIG_USERCONFIG": "/dev/null", "GNUPGHOME": str(confined.home)}
    for run in (confined.read, confined.work_in):
        done = run("echo x > /dev/null && cat a.txt < /dev/null")
        assert (done.returncode, done.stdout) == (0, "A\n")


@pytest.mark.finding("3H7")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("true", ".config/microsoft-edge/Default/Cookies"),
        ("true", ".var/app/org.mozilla.firefox/key4.db"),
        ("true", "snap/firefox/common/key4.db"),
        ("true", ".config/Code/User/globalStorage/state.vscdb"),
        ("true", ".local/share/opencode/auth.json"),
        ("true", ".local/share/atuin/history.db"),
        ("true", ".local/state/bash/history"),
        ("kaggle", ".kaggle/kaggle.json"),
        ("dbt", ".dbt/profiles.yml"),
        ("kubectl", ".minikube/profiles/minikube/client.key"),
        ("sentry-cli", ".sentryclirc"),
        ("solana", ".config/solana/id.json"),
        ("docker", ".dockercfg"),
    ],
)
def test_credentials_of_more_programs_are_seen_only_by_a_command_that_names_them(confined, command, name):
    (confined.home / name).parent.mkdir(parents=True, exist_ok=True)
    (confined.home / name).write_text("PRIVATE-KEY")
    line = f"cat '{confined.home / name}'"
    assert "PRIVATE-KEY" not in confined.work_in(line).stdout
    seen = confined.work_in(line, needs=command_needs([(command, "x")])).stdout
    assert ("PRIVATE-KEY" in seen) is (command != "true")


@pytest.mark.finding("3H7")
@pytest.mark.parametrize("variable", ["npm_config_userconfig", "CLOUDSDK_CONFIG", "HISTFILE", "CODEX_HOME"])
def test_more_variables_that_name_credentials_hide_them(confined, variable):
    place = confined.home / "elsewhere"
    place.write_text("PRIVATE-KEY")
    assert "PRIVATE-KEY" in confined.work_in("cat ~/elsewhere").stdout
    confined.env[variable] = str(place)
    assert "PRIVATE-KEY" not in confined.work_in("cat ~/elsewhere").stdout
