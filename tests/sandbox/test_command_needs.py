"""The needs that commands name: the network, credentials, and the configuration of the repository."""

import asyncio
import os
import shlex
import time

import pytest

from teamwright.sandbox.command_needs import command_needs
from teamwright.sandbox.named_hosts import named_hosts
from teamwright.sandbox.policy import SandboxSettings
from teamwright.sandbox.sandbox import Sandbox
from teamwright.tools.shell.command_confinement import find_hosts
from tests.support.repositories import git


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
    assert needs("docker ps").describe().startswith("the whole network, ")
    assert needs("curl x").describe(["a.example"]) == "the network (a.example; other hosts ask)"
    assert needs("curl $X").describe([]) == "the network (each host asks)"
    assert needs("make").describe() == ""


@pytest.mark.parametrize(
    "line", ["docker ps", "nc host 80", "npm run dev", "python3 -m http.server", "curl x && mvn test"]
)
def test_servers_and_programs_that_know_no_proxy_get_the_whole_network(line):
    assert needs(line).whole_network


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("curl -sSL https://user:pw@Example.com:8443/x?y=https://other.example", "example.com"),
        ("curl -o install.sh example.com/x", "example.com"),
        ("curl -sSLo install.sh example.com/x", "example.com"),
        ("curl -d other.example --referer https://other.example/ -x other.example example.com/x", "example.com"),
        ("wget -O install.sh --header=https://other.example/ example.com", "example.com"),
        ("gh issue create -b https://other.example/ --title https://other.example/", "origin.example upstream.example"),
        ("git push -o https://other.example/ origin", "origin.example"),
        ("aws s3 cp a.txt s3://other.example/a.txt", ""),
        ("curl http://[::ffff:127.0.0.1]:3000/", "127.0.0.1:3000"),
        ("curl https://good.example:x@evil.example/", "evil.example"),
        ("curl http://10.0.0.1/ http://0x7f.1/ http://169.254.169.254/", ""),  # a person is asked about numbers
        ("curl http://localhost:3000/ https://127.0.0.1/ http://[::1]/", "localhost:3000 127.0.0.1:443 [::1]:80"),
        ("curl localhost:3000/x LOCALHOST", "localhost:3000"),
        ("ssh -p 2222 me@localhost", "localhost:2222"),
        ("scp -oPort=2222 a.txt localhost:b.txt", "localhost:2222"),
        ("git clone ssh://git@localhost/a.git", "localhost:22"),
        ("wget -q https://example.com/a.tgz && make https://other.example/", "example.com"),
        ("git clone git@example.com:team/project.git", "example.com"),
        ("git push", "origin.example upstream.example"),
        ("git fetch upstream main", "upstream.example"),
        ("git push https://third.example/x.git", "third.example"),
        ("ssh -p 22 -i key me@example.com curl https://other.example/", "example.com"),
        ("scp -J jump.example a.txt me@example.com:b.txt", "jump.example example.com"),
        ("pip install x", "pypi.org files.pythonhosted.org mirror.example"),
        ("python3 -m pip install -i https://third.example/simple x", "third.example pypi.org"),
        ("npm install", "registry.npmjs.org packages.example"),
        ("cargo build", "index.crates.io static.crates.io crates.example"),
        ("gh pr list", "origin.example upstream.example github.com"),
        ("npm install pkg@https://third.example/x.tgz", "third.example registry.npmjs.org"),
        ("pip install 'x @ git+https://third.example/x'", "third.example pypi.org"),
        ("npm install --registry=https://third.example/", "third.example registry.npmjs.org"),
        ("gh pr create --body 'see https://other.example/'", "origin.example upstream.example github.com"),
        ("""curl -d '{"url": "https://other.example/"}' https://example.com/""", "example.com"),
        ("git commit -m https://other.example/", ""),
        ("make https://other.example/", ""),
    ],
)
@pytest.mark.slow_after(14)
def test_a_line_names_the_hosts_of_its_addresses_remotes_and_registries(tmp_path, line, hosts):
    home, work = tmp_path / "home", tmp_path / "work"
    for path, text in {
        ".npmrc": "@team:registry=https://packages.example/npm/\n//packages.example/npm/:_authToken=x\n",
        ".config/pip/pip.conf": "[global]\n# index-url = https://old.example/\nextra-index-url = https://mirror.example/\n",
        ".cargo/config.toml": '[source.mine]\nregistry = "sparse+https://crates.example/index/"\n',
    }.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    work.mkdir()
    git(work, "init", "--quiet")
    git(work, "remote", "add", "origin", "git@origin.example:a/b.git")
    git(work, "remote", "add", "upstream", "https://upstream.example/a/b.git")
    (work / ".npmrc").write_text("registry=https://evil.example/\n")  # a file of the project was not shown
    found = named_hosts([shlex.split(part) for part in line.split("&&")], work, str(home), {})
    names = [str(host) for host in found]
    assert " ".join(names).startswith(hosts) and bool(names) == bool(hosts)
    assert not {"evil.example", "other.example"} & (set(names) - {hosts}), "data and a repository name no host"


async def test_a_git_that_does_not_answer_delays_a_line_for_a_second_and_no_other_agent(
    confined, tmp_path, monkeypatch
):
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    began = time.monotonic()
    finding = asyncio.create_task(find_hosts(Sandbox(SandboxSettings(), confined.place), "git push", tmp_path))
    await asyncio.sleep(0)
    assert not finding.done() and await finding == ()
    assert time.monotonic() - began < 5
