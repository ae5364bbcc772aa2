"""Common lines of developers in a small repository, by what they do, and the count of those that ask.

`python -m tests.permissions.common_lines` prints the counts with a sandbox.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
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
    **dict.fromkeys(("npm --version", "cargo --version", "go version"), "they write state in the home directory"),
    "ls src/*.py | while read f; do echo $f; done": "what read gets is not known when the line is judged",
}
"""Lines that read and ask, each with its reason."""

ASKING_EDITS = ("cp a.py b.py; cat b.py", "mkdir d; cd d; cp ../a.py .")
"""Lines that change files and ask in acceptEdits: a command after cp may read what cp has put there."""

MOST_QUESTIONS = 5
"""The most lines of a group that may ask."""


class QuestionCount(Struct, frozen=True):
    """The lines of a group, and those of them that ask with a setting of the sandbox."""

    group: str
    lines: int
    asking: list[str]

    def __str__(self) -> str:
        return f"{len(self.asking)} of {self.lines} {self.group}: {', '.join(self.asking)}"


def make_project(place: Path) -> None:
    """Create a small separate repository, as a developer has it."""
    (place / "src").mkdir()
    for name in ("a.py", "src/main.py", "package.json"):
        (place / name).write_text("{}\n")
    for step in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(place), *step], check=True)


def count_questions(project: Path) -> list[QuestionCount]:
    """Return the counts of lines that ask: reading ones with a sandbox, working ones with `sandbox.auto_allow` too."""
    policy = Policy(Mode.DEFAULT, (), PermissionScope((project,), base=project))

    def asks(line: str, *policies: PolicyName) -> bool:
        access = Access(command=line, cwd=project, sandbox=frozenset(policies))
        return policy.decide("Bash", access).verdict is not Verdict.ALLOW

    reading = (*READING, *ASKING)
    return [
        QuestionCount(
            "lines that only read ask with a sandbox",
            len(reading),
            [line for line in reading if asks(line, PolicyName.READ)],
        ),
        QuestionCount(
            "lines that work ask with sandbox.auto_allow",
            len(WORKING),
            [line for line in WORKING if asks(line, PolicyName.READ, PolicyName.WORK)],
        ),
    ]


def main() -> None:
    """Print the counts."""
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory).resolve()
        make_project(project)
        for count in count_questions(project):
            print(count)


if __name__ == "__main__":
    main()
