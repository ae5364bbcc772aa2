"""The needs that commands name: the network, credentials, and the configuration of the repository."""

import shlex

import pytest

from teamwright.sandbox.command_needs import command_needs


def needs(line: str):
    return command_needs([shlex.split(part) for part in line.split("&&")])


@pytest.mark.parametrize(
    "line",
    [
        "git push",
        "git -C sub fetch",
        "gh pr list",
        "npm install",
        "npm run dev",
        "pip install x",
        "python3 -m pip install x",
    ],
)
def test_these_name_the_network(line):
    assert needs(line).network


@pytest.mark.parametrize(
    "line", ["git commit -m push", "make", "pytest", "npm run test", "npm test", "python3 x.py", "ls"]
)
def test_these_do_not_name_the_network(line):
    assert not needs(line).network and not needs(line).credentials


def test_a_push_gets_what_git_needs_and_nothing_of_a_cloud():
    found = needs("git push").credentials
    assert ".ssh" in found and ".git-credentials" in found and ".aws" not in found


def test_the_configuration_of_git_is_open_to_lines_of_git_alone():
    assert needs("cd sub && git checkout -b x").git_config
    assert not needs("git checkout -b x && python3 evil.py").git_config


def test_the_needs_are_described_for_the_question():
    assert needs("docker ps").describe().startswith("the network, ")
    assert needs("make").describe() == ""
