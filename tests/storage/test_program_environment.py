"""The PATH and the variables of programs: nothing that a command can change decides what they run."""

import os
import subprocess

import pytest

from teamwright.processes.program_environment import (
    SYSTEM_PATH,
    find_program,
    is_changeable,
    own_variables,
    proven_variables,
    safe_path,
    without_git_variables,
)


@pytest.fixture
def project(tmp_path):
    """A session's directory with a directory of programs, beside a directory that no command can change."""
    made = tmp_path / "project"
    (made / "bin").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return made


def program(path) -> str:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.finding("3P1")
def test_the_safe_path_has_no_directory_that_a_command_can_change(project, tmp_path):
    outside = str(tmp_path / "outside")
    (tmp_path / "link").symlink_to(project / "bin")
    (project / "out").symlink_to(outside)
    entries = (
        str(project / "bin"),
        "",
        ".",
        "bin",
        str(tmp_path / "link"),
        str(project / "out"),
        f"{outside}/../project",
    )
    assert safe_path(os.pathsep.join((*entries, outside)), (str(project),)) == outside
    assert safe_path(os.pathsep.join(entries), (str(project),)) == SYSTEM_PATH
    assert safe_path("/opt/x/bin:/usr/bin", (str(project),)) == "/opt/x/bin:/usr/bin"


@pytest.mark.finding("3P1")
def test_a_directory_with_a_link_to_a_file_of_the_project_is_not_safe_from_the_link_on(project, tmp_path):
    outside = tmp_path / "outside"
    (outside / "tool").symlink_to("/bin/sh")
    assert safe_path(str(outside), (str(project),)) == str(outside)
    (outside / "rg").symlink_to(project / "bin" / "rg")  # it does not exist yet
    os.utime(outside, ns=(1, 1))
    assert safe_path(f"{outside}:/usr/bin", (str(project),)) == "/usr/bin"


@pytest.mark.finding("3P1")
def test_the_directories_of_the_system_stay_in_a_session_of_the_root_directory():
    assert safe_path("/home/x/bin:/usr/bin:/bin", ("/",)) == "/usr/bin:/bin"


@pytest.mark.finding("3P4")
def test_a_program_of_ours_is_found_where_no_command_can_put_one(project, tmp_path):
    program(project / "bin" / "rg")
    outside = tmp_path / "outside"
    path = f"{project / 'bin'}:{outside}"
    assert find_program("rg", path, (str(project),)) == ""
    (outside / "git").symlink_to(program(project / "bin" / "git"))
    assert find_program("git", path, (str(project),)) == ""
    mine = program(outside / "tmux")
    assert find_program("tmux", path, (str(project),)) == mine


@pytest.mark.finding("3P4")
def test_a_path_through_a_link_of_the_project_is_changeable(project, tmp_path):
    (project / "there").symlink_to(tmp_path / "outside")
    (tmp_path / "way").symlink_to(project / "there")
    assert is_changeable(str(tmp_path / "way"), (str(project),))
    assert not is_changeable(str(tmp_path / "outside"), (str(project),))


@pytest.mark.finding("3P2")
@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_LIBRARY_PATH", "PERL5LIB", "NODE_PATH", "CLASSPATH", "GCONV_PATH"])
@pytest.mark.parametrize("clean", [own_variables, proven_variables])
def test_entries_of_the_project_relative_and_empty_ones_are_left_out_of_lists(project, name, clean):
    env = {name: f"{project}/src:/opt/lib::src:.", "OTHER": "src"}
    assert clean(env, (str(project),)) == {name: "/opt/lib", "OTHER": "src"}
    assert clean({name: "/opt/lib:"}, (str(project),)) == {name: "/opt/lib"}
    assert clean({name: "src"}, (str(project),)) == {}


OPTIONS = {
    "NODE_OPTIONS": ("--max-old-space-size=4096", "--require ./x.js", "-r hook", "--import=hook", "--loader hook.mjs"),
    "JAVA_TOOL_OPTIONS": ("-Xmx2g -Dfile.encoding=UTF-8", "-javaagent:x.jar", "-cp x", "-Xbootclasspath/a:x.jar"),
    "GOFLAGS": ("-mod=mod", "-toolexec=./x", "-toolexec x", "-overlay=o.json"),
    "MAKEFLAGS": ("-j8", "-f other.mk", "--eval=x", "-I ./mk"),
    "EDITOR": ("code --wait", "./edit", "sh -c 'src/x'"),
    "GIT_SSH_COMMAND": ("ssh -i ~/.ssh/key", "ssh -F cfg", "src/ssh", "ssh -o ProxyCommand=./x"),
}


@pytest.mark.finding("3P2")
@pytest.mark.parametrize("name", OPTIONS)
def test_options_stay_for_programs_of_the_person_unless_they_may_name_code_of_the_project(project, name):
    plain, *loading = OPTIONS[name]
    assert own_variables({name: plain}, (str(project),)) == {name: plain}
    for value in (*loading, f"{plain} {project}/x"):
        assert own_variables({name: value}, (str(project),)) == {}, value
    assert proven_variables({name: plain}, (str(project),)) == {}


@pytest.mark.finding("3P2")
@pytest.mark.parametrize(
    "name", ["BASH_ENV", "ENV", "BASH_FUNC_ls%%", "LESSOPEN", "GIT_EXTERNAL_DIFF", "npm_config_script_shell"]
)
def test_a_proven_line_starts_without_what_a_shell_or_a_pager_would_run_first(name):
    assert proven_variables({name: "/opt/x", "HOME": "/home/x", "PAGER": "cat"}, ()) == {
        "HOME": "/home/x",
        "PAGER": "cat",
    }


@pytest.mark.finding("3W2")
def test_all_variables_by_which_git_finds_a_repository_are_removed():
    listed = subprocess.run(["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True)
    env = dict.fromkeys(listed.stdout.split(), "x") | {"GIT_CONFIG_KEY_0": "a", "GIT_CONFIG_VALUE_0": "b"}
    assert without_git_variables({**env, "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_DATE": "x", "A": "1"}) == {"A": "1"}


@pytest.mark.finding("3W2")
def test_an_author_that_the_person_named_stays_outside_of_git():
    env = {"GIT_AUTHOR_NAME": "Ada", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": "/etc/gitconfig"}
    assert without_git_variables({**env, "GIT_COMMITTER_DATE": "2001-01-01"}) == env
