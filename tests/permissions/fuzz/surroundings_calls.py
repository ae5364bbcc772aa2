"""Calls for the fuzz of surroundings: lines that only read and start helpers, other tools, and changes.

Depends on the generator of lines and on the names of files in the world.
"""

from __future__ import annotations

import random

from tests.permissions.fuzz.generator import Generator
from tests.permissions.fuzz.surroundings import PROGRAM_PLACES, SCRIPTS

HELPED = r"""
egrep -n one a.py
fgrep one a.py
egrep -rc one src
grep -rn one src
zcat numbers.gz
zgrep 3 numbers.gz
zegrep 3 numbers.gz
zfgrep 3 numbers.gz
zdiff numbers.gz numbers.gz
zcmp numbers.gz numbers
zmore numbers.gz
zless numbers.gz
xzcat numbers.xz
xzgrep 3 numbers.xz
xzdiff numbers.xz numbers.xz
bzcat numbers.bz2
bzgrep 3 numbers.bz2
gunzip -c numbers.gz
gzip -l numbers.gz
gzip -dc numbers.gz
xz -l numbers.xz
tar tf x.tar
tar tf x.tar.gz
tar tzf x.tar.gz
tar -tvf x.tar.xz
tar -xOf x.tar.gz a.py
tar --list -f x.tar.bz2
unzip -l x.zip
npm --version
npm -v
npm ls
npm view x
node --version
node -v
npx --version
python3 --version
python --version
python3 -V
python3 -m json.tool package.json
ruby --version
gem --version
java -version
javac -version
go version
go env GOPATH
cargo --version
rustc --version
rustc -V
pip --version
perl -v
git status
git status --short
git diff
git diff --stat
git diff HEAD~1
git diff --cached
git log -3
git log -p -2
git log --oneline --show-signature
git log -p -1 -- a.py
git show
git show HEAD:a.py
git show --stat HEAD
git show --textconv HEAD:a.py
git blame a.py
git grep -n one
git ls-files -m
git ls-files --others --exclude-standard
git branch -a
git branch -vv
git stash list
git stash show -p
git shortlog -sn HEAD
git rev-parse --show-toplevel
git remote -v
git remote show origin
git ls-remote
git fetch --dry-run
git tag -l
git config --list
git config --get-regexp alias
git describe --tags
git cat-file -p HEAD
git cat-file --filters HEAD:a.py
git diff-index -p HEAD
git diff-files -p
git check-attr -a a.py
git reflog
git st
git lg
git foo
git help log
git var GIT_EDITOR
git for-each-ref
git worktree list
git submodule status
git archive --list
git merge-base main other
git fsck
git count-objects -v
git verify-commit HEAD
git whatchanged -1
git range-diff HEAD~1 HEAD HEAD
git -C sub status
git --no-pager diff
git -c core.pager=cat log -1
man ls
man ./page.1
less a.py
more a.py
lesspipe a.py
file a.py
file -z numbers.gz
sort numbers
sort -R numbers
sort numbers | uniq -c
sort --parallel=2 numbers
date
date +%s
date -d yesterday
locale
locale -a
tput cols
env
env | sort
printenv PATH
ls -la
ls --color=always
find . -name '*.py'
find . -maxdepth 1 -name '*.py' -exec egrep -n one {} +
find . -maxdepth 1 -name '*.gz' -exec zcat {} \;
find src -type f -exec cat {} +
find . -maxdepth 1 -type f -print0 | xargs -0 wc -l
ls *.py | xargs egrep -l one
ls *.gz | xargs zcat
ls | xargs -n1 file
cat a.py | less
cat a.py | more
cat a.py | egrep one | sort
echo "$(egrep -c one a.py)"
for f in *.gz; do zcat $f; done
which python3
which egrep
type egrep
command -v node
whereis ls
uname -a
id
hostname
nproc
lscpu
lsb_release -a
dpkg -l bash
df -h
du -sh src
ps
stat a.py
jq . package.json
awk '{print $1}' numbers
sed -n 1,2p a.py
diff a.py b.py
diff -u a.py src/main.py
cmp a.py b.py
md5sum a.py
sha256sum a.py
xxd a.py
od -c a.py
strings a.py
column -t data.csv
head -3 a.py
tail -2 a.py
wc -l *.py
cut -d, -f1 data.csv
tr a b < a.py
readlink -f a.py
realpath a.py
basename a.py .py
seq 3
nl a.py
tac a.py
rev a.py
comm a.py b.py
test -f a.py && echo yes
iconv -f utf-8 -t utf-16 a.py
bash -c 'egrep one a.py'
sh -c 'zcat numbers.gz'
bash --version
timeout 5 egrep one a.py
nice egrep one a.py
nohup egrep one a.py
stdbuf -oL egrep one a.py
time zcat numbers.gz
rg -n one
rg --version
rg -z 3 numbers.gz
rg --files
ag one
tree
make -n h
make --version
gcc --version
cc -v
tmux -V
ssh -V
gpg --version
curl --version
docker --version
kubectl version --client
terraform version
""".strip().splitlines()
"""Lines that read. Some of them ask, whatever surrounds them."""

_FRAMES = (
    *("{}",) * 12,
    *("cd src && {}", "cd sub; {}", "cd bin && {}", "{} | cat", "{} | sort | head -3", "{} 2>/dev/null", "{} 2>&1"),
    *("env {}", "timeout 9 {}", "command {}", "time {}", "LC_ALL=C {}", "LANG=xx_XX {}", "( {} )", "{ {}; }"),
    *("x=$({}); echo $x", "if true; then {}; fi", "{} || true", "! {}", "{} < a.py", "echo a.py | xargs {}"),
    *("builtin {}", "exec {}", "{}; {}", "cat <({})", "for i in 1 2; do {}; done", "nohup {}", "xargs {} < /dev/null"),
)
_TARGETS = (
    *(f"{place}/{name}" for place in PROGRAM_PLACES[:4] for name in ("rg", "git", "bash", "egrep", "python3", "grep")),
    *SCRIPTS,
    *("src/sitecustomize.py", "sitecustomize.py", "linked.py", "linked.txt", "sub/linked.py", ".git/config", "mark.sh"),
    *(".git/hooks/pre-commit", ".githooks/post-index-change", ".gitattributes", "new.py", "a.py", "scripts/fsmonitor"),
    *(
        "teamwright/__init__.py",
        ".python-version",
        ".tool-versions",
        "mark.js",
        "perl/strict.pm",
        "lib/libselinux.so.1",
    ),
    *(".teamwright/settings.json", ".mcp.json", ".npmrc", "../outside/file", "{home}/.bashrc", "{home}/.gitconfig"),
)
_CHANGES = (
    *("cp mark.sh {}", "cp mark.sh {}", "cp a.py {}", "mv b.py {}", "touch {}", "mkdir -p {}", "cp -f a.py {}"),
    *("cp -a a.py {}", "cp --remove-destination a.py {}", "cp -r src {}", "mv -f a.py {}", "touch -d yesterday {}"),
    *("cat mark.sh > {}", "echo x >> {}", "cp -l a.py {}", "ln -f {} new.py", "ln {} new.py", "tee {} < mark.sh"),
    *("chmod 755 {}", "sed -i s/a/b/ {}", "install -m 755 mark.sh {}", "dd if=mark.sh of={}", "truncate -s 0 {}"),
    *("printf '. ./mark.sh\\n' > {}", "rm -f {}; cp mark.sh {}", "ln -sf mark.sh {}", "git config --file {} x.y z"),
)


class CallMaker:
    """Makes calls from a seed."""

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self._generator = Generator(str(pick.random()))

    def calls(self, count: int, mode: str) -> tuple[str, ...]:
        """Return calls for a session in this mode. An Edit comes after a Read of the file."""
        found: list[str] = []
        while len(found) < count:
            found += self._call(mode)
        return tuple(found)

    def _call(self, mode: str) -> list[str]:
        pick = self._pick
        changes = 4 if mode == "acceptEdits" else 1
        kind = pick.choices(
            ("line", "random", "change", "write", "edit", "search", "read", "skill"),
            (24, 4, changes, changes, changes, 5, 1, 0.2),
        )[0]
        target = pick.choice(_TARGETS)
        if kind == "line":
            return [f"Bash({self._helped()})"]
        if kind == "random":
            return [f"Bash({self._generator.line('editing' if mode == 'acceptEdits' else 'reading')})"]
        if kind == "change":
            return [f"Bash({pick.choice(_CHANGES).replace('{}', target)})"]
        if kind == "edit":
            return [f"Read({target})", f"Edit({target})"]
        if kind == "search":
            return [pick.choice(("Grep(one)", "Grep(x y)", "Glob(*.py)", "Glob(**/*.sh)"))]
        return [{"write": f"Write({target})", "read": f"Read({target})", "skill": "Skill(probe)"}[kind]]

    def _helped(self) -> str:
        first, *rest = self._pick.choice(_FRAMES).split("{}")
        return first + "".join(self._pick.choice(HELPED) + text for text in rest)
