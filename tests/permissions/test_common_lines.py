"""Common lines of developers: those that only read run without a question, apart from a few with reasons."""

import subprocess
from collections.abc import Sequence

import pytest

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName

READING = r"""
git status
git diff
git log --oneline -5
git log -p -1
git show HEAD
git show --stat HEAD
git branch
git branch -a
git branch -vv
git blame a.py
git stash list
git rev-parse --show-toplevel
git rev-parse HEAD
git remote -v
git ls-files | wc -l
git grep -n TODO
git diff --stat HEAD~1
git diff main...HEAD
git log --oneline main..HEAD
git log --graph --oneline --all -20
git tag
git reflog
git diff --cached
git check-ignore -v x
ls
ls -la src
ls -R | head -50
pwd
cat a.py
cat -n a.py
head -20 a.py
tail -n 20 a.py
sed -n '1,20p' a.py
wc -l src/*.py
grep -rn "def " src
grep -rn --include='*.py' TODO .
rg TODO
rg -n 'class \w+' src
rg --files | head
find . -name '*.py'
find . -name '*.py' -not -path './node_modules/*' | head
find src -newer a.py
find . -name '*.py' -exec wc -l {} +
tree -L 2
which python3
python --version
python3 --version
node --version
npm --version
cargo --version
go version
uname -a
date
date +%s
echo $PATH
echo $HOME
whoami
hostname
df -h
du -sh .
file a.py
stat a.py
diff a.py src/main.py
sort a.py | uniq -c | sort -rn | head
cut -d, -f1 a.py
awk '{print $1}' a.py
awk -F: '{print $2}' a.py
awk '{sum+=$1} END {print sum}' a.py
awk '$3 > 5' a.py
jq . package.json
jq '.scripts' package.json
jq -r '.scripts | keys[]' package.json
cat package.json | jq .name
xxd a.py | head
hexdump -C a.py | head
strings a.py
basename src/main.py
dirname src/main.py
test -f a.py && echo yes
[ -d src ] && ls src
for f in src/*.py; do wc -l "$f"; done
for f in src/*.py; do echo "$f"; head -3 "$f"; done
cat a.py | grep one
cat a.py 2>/dev/null
ls nonexist 2>&1 || true
cd src && ls
cd src && grep -n x main.py
(cd src && ls)
grep -c one a.py
grep -E 'a|b' a.py
grep -l one *.py
nl a.py
tac a.py
cmp a.py src/main.py
md5sum a.py
sha256sum a.py
readlink -f a.py
realpath a.py
printenv PATH
type ls
command -v git
seq 1 3
sleep 1
true
ls -t | head -1
comm -12 a.py src/main.py
tr -d '\n' < a.py
column -t a.py
paste a.py a.py
fold -w 80 a.py
zcat x.gz
tar tf x.tar
unzip -l x.zip
free -m
uptime
nproc
id
""".strip().splitlines()

EDITING = r"""
cp a.py b.py
mv a.py b.py
mkdir -p build/x
mkdir {a,b}
touch new.py
touch -d now a.py
""".strip().splitlines()

WORKING = r"""
npm ls
pip list
pip show pytest
npm test
make test
pytest
python -m pytest -q
cargo test
go test ./...
ruff check .
mypy .
tsc --noEmit
eslint .
make -n
docker ps
gh pr view
curl -s http://localhost:8000
lsof -i :8000
top -b -n1
""".strip().splitlines()

ASKING = {
    "git config --list": "the user's configuration may contain tokens",
    "env | grep PATH": "it prints secrets",
    "ps aux": "arguments of other processes may contain secrets",
    "ps aux | grep python": "arguments of other processes may contain secrets",
    "less a.py": "LESSOPEN runs a program",
    "python -m json.tool package.json": "a json.py of the directory would run",
    "find . -type f -name '*.py' | xargs wc -l": "xargs splits names at blanks, so it may read another file",
    "ls src/*.py | while read f; do echo $f; done": "what read gets is not known when the line is judged",
}
"""Lines that read and ask, each with its reason."""

ASKING_EDITS = ("cp a.py b.py; cat b.py", "mkdir d; cd d; cp ../a.py .")
"""Lines that change files and ask in acceptEdits: a command after cp may read what cp has put there."""


READ, WORK = PolicyName.READ, PolicyName.WORK


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A small separate repository, as a developer has it."""
    place = tmp_path_factory.mktemp("common")
    (place / "src").mkdir()
    for name in ("a.py", "src/main.py", "package.json"):
        (place / name).write_text("{}\n")
    for step in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(place), *step], check=True)
    return place


def verdict(project, line: str, mode: Mode, *sandbox: PolicyName, rules: Sequence[Rule] = ()) -> Verdict:
    """Return the verdict on a line, with the policies of the sandbox that answer questions."""
    policy = Policy(mode, rules, PermissionScope((project,), base=project))
    return policy.decide("Bash", Access(command=line, cwd=project, sandbox=frozenset(sandbox))).verdict


@pytest.mark.finding("P13")
def test_common_lines_that_only_read_are_allowed(project):
    assert [line for line in READING if verdict(project, line, Mode.DEFAULT) is not Verdict.ALLOW] == []
    assert len(ASKING) <= 20


@pytest.mark.finding("P13")
def test_common_edits_inside_are_allowed_where_edits_are_accepted(project):
    assert [line for line in EDITING if verdict(project, line, Mode.ACCEPT_EDITS) is not Verdict.ALLOW] == []
    assert [line for line in EDITING if verdict(project, line, Mode.DEFAULT) is not Verdict.ASK] == []


@pytest.mark.finding("P13")
def test_common_lines_that_run_code_or_may_show_secrets_ask(project):
    asking = (*WORKING, *ASKING)
    assert [line for line in asking if verdict(project, line, Mode.DEFAULT) is not Verdict.ASK] == []
    assert [line for line in ASKING_EDITS if verdict(project, line, Mode.ACCEPT_EDITS) is not Verdict.ASK] == []


@pytest.mark.finding("P13")
def test_at_most_five_common_lines_of_each_group_ask_with_a_sandbox(project, capsys):
    reading = [line for line in (*READING, *ASKING) if verdict(project, line, Mode.DEFAULT, READ) is Verdict.ASK]
    working = [line for line in WORKING if verdict(project, line, Mode.DEFAULT, READ, WORK) is Verdict.ASK]
    with capsys.disabled():
        print(f"\n{len(reading)} of {len(READING) + len(ASKING)} reading lines ask with a sandbox: {reading}")
        print(f"{len(working)} of {len(WORKING)} working lines ask with sandbox.auto_allow: {working}")
    assert len(reading) <= 5 and len(working) <= 5
    assert working == ["cargo test", "docker ps", "gh pr view", "curl -s http://localhost:8000"]


@pytest.mark.parametrize(
    "line",
    [
        *("git commit -am x", "make test && git push", "git reset --hard", "sh -c 'git commit -am x'"),
        *("echo $GITHUB_TOKEN", "less /etc/hosts", "cat ../x", "touch ../x", "make > /tmp/x", "x=make; $x; $y"),
        *("PATH=.:$PATH make", "touch .claude/settings.json", "npm publish", "ssh host", "env"),
    ],
)
def test_a_line_that_needs_more_than_the_sandbox_gives_still_asks(project, line):
    assert verdict(project, line, Mode.DEFAULT, READ, WORK) is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "jq -n env",
        "jq -n '$ENV'",
        "jq -f x.jq a.py",
        "rg --pre env x",
        "bat --paging=always --pager=env a.py",
        "less +!env a.py",
    ],
)
def test_a_reader_that_may_print_the_environment_asks_in_the_sandbox_too(project, line):
    assert verdict(project, line, Mode.DEFAULT, READ) is Verdict.ASK
    assert verdict(project, "less a.py", Mode.DEFAULT, READ) is Verdict.ALLOW


def test_rules_that_ask_or_deny_hold_in_the_sandbox(project):
    denied = parse_rules(["Bash(make:*)", "Read(*.key)"], Verdict.DENY, "test", project)
    asked = parse_rules(["Bash(make:*)", "Read(*.key)"], Verdict.ASK, "test", project)
    for line in ("make test", "pytest a.key", "echo x | xargs less a.key"):
        assert verdict(project, line, Mode.DEFAULT, READ, WORK, rules=denied) is Verdict.DENY, line
        assert verdict(project, line, Mode.DEFAULT, READ, WORK, rules=asked) is Verdict.ASK, line


def test_changes_inside_run_without_a_question_where_the_sandbox_answers(project):
    for line in (*EDITING, ASKING_EDITS[0], "pytest > out.txt"):
        assert verdict(project, line, Mode.DEFAULT, READ, WORK) is Verdict.ALLOW, line
        assert verdict(project, line, Mode.DEFAULT, READ) is Verdict.ASK, line
        assert verdict(project, line, Mode.PLAN, READ, WORK) is Verdict.DENY, line
