"""Shell lines of an agent in a worktree, joined at random from git commands, variables, wrappers and deletions."""

import random

BRANCHES = [
    "theirs",
    "packed",
    "main",
    "topic",
    "HEAD~1",
    "{own}",
    "only-remote",
    "refs/heads/theirs",
    "-",
    "v1",
    "HEAD",
]
REMOTES = ["origin", ".", "{checkout}", "file://{checkout}", "../../../shop", '"$R"']
GIT_DIRECTORIES = [
    '"$(git rev-parse --git-common-dir)"',
    "$(git rev-parse --git-common-dir)",
    "{checkout}/.git",
    '"$G"',
    "${{P%/worktrees*}}",
    "$(cut -c9- .git | sed 's#/worktrees.*##')",
]
OPTIONS = {
    "commit": ["--allow-empty -m x", "-am x", "--amend --no-edit --allow-empty", "-m 'a b' --allow-empty"],
    "checkout": [
        "{b}",
        "-q {b}",
        "-b new{n}",
        "-B {b}",
        "{b} -- a.txt",
        "--detach {b}",
        "-b new{n} {b}",
        "-t origin/{b}",
    ],
    "switch": [
        "{b}",
        "-c new{n}",
        "-C {b}",
        "--detach {b}",
        "--guess {b}",
        "-c new{n} {b}",
        "--ignore-other-worktrees {b}",
    ],
    "branch": [
        "new{n}",
        "-f {b} HEAD",
        "-D {b}",
        "-m {b} new{n}",
        "-u origin/main",
        "new{n} {b}",
        "--del {b}",
        "-c {b} x{n}",
    ],
    "reset": ["--hard HEAD~1", "--hard {b}", "--soft HEAD~1", "-q"],
    "merge": ["-q {b}", "--no-edit {b}", "--abort", "--autostash {b}"],
    "rebase": ["{b}", "{b} {b}", "--onto {b} HEAD~1 {b}", "--root {b}", "--update-refs {b}", "--abort"],
    "cherry-pick": ["{b}", "--abort", "-n {b}"],
    "revert": ["--no-edit HEAD", "--abort"],
    "tag": ["t{n}", "-f v1", "-d v1", "-l", "-a t{n} -m x", "t{n} {b}"],
    "notes": ["add -m x", "list", "remove", "append -m x"],
    "stash": ["", "push -q", "pop", "drop", "clear", "list", "-u", "apply"],
    "push": ["{r} HEAD:main", "{r} HEAD", "-u origin HEAD", "{r} +HEAD:theirs", "{r} :theirs", "--mirror {r}"],
    "fetch": [
        "{r} {b}:{b}",
        "--depth 1",
        "--unshallow",
        "{r}",
        "--prune",
        "--tags",
        "{r} +main:theirs",
        "--depth=1 {r}",
    ],
    "pull": ["{r} main", "--rebase", "--depth 1 origin main", "{r} main:theirs"],
    "config": ["user.name x", "--get user.name", "core.bare true", "--unset user.name", "--worktree a.b c", "-l"],
    "remote": ["add r{n} {checkout}", "-v", "remove origin", "set-url origin x", "rename origin o", "prune origin"],
    "worktree": ["add ../w{n}", "list", "remove --force .", "prune", "move . ../x", "repair", "unlock ."],
    "update-ref": ["refs/heads/theirs HEAD", "-d refs/heads/theirs"],
    "symbolic-ref": ["HEAD refs/heads/theirs", "HEAD", "-d HEAD"],
    "reflog": ["expire --expire=now --all", "show", "delete HEAD@{{0}}"],
    "submodule": ["init", "status", "sync", "update --init", "add ./x y"],
    "sparse-checkout": ["set src", "list", "disable", "init --cone"],
    "gc": ["--prune=now", "--auto"],
    "repack": ["-adq"],
    "prune": ["--expire=now"],
    "pack-refs": ["--all"],
    "maintenance": ["run", "register"],
    "replace": ["HEAD HEAD~1"],
    "bisect": ["start", "reset theirs"],
    "rm": ["-q a.txt", "-rq .", "--cached a.txt"],
    "add": ["-A", ".", "a.txt", "-f .env"],
    "clean": ["-fdq"],
    "mv": ["a.txt z.txt"],
    "ci": ["-m x --allow-empty"],
    "filter-branch": ["-f --msg-filter cat HEAD"],
    "rerere": ["clear", "status"],
    "init": ["", "."],
    "read-tree": ["-u --reset HEAD~1"],
    "update-index": ["--assume-unchanged a.txt"],
    "apply": ["x.patch"],
    "am": ["--abort"],
    "log": ["--oneline"],
    "status": [""],
}
GLOBALS = [
    *("", "", "", "", "", "", "", "", "-C . ", "-C {checkout} ", '-C "$D" ', "--git-dir={g} ", "--git-dir {g} "),
    *("--work-tree=. ", "-c alias.ci=commit ", "-c remote.x.url=. ", "--bare ", "-c core.bare=false "),
]
FILES = [
    *("echo x > f{n}.txt", "echo x >> a.txt", "rm -rf *", "rm -f .git", "rm -rf .", 'rm -rf "$PWD"', "mv a.txt b.txt"),
    *("echo K=1 > .env", "mkdir -p node_modules/x && echo > node_modules/x/i.js", "find . -type f -delete"),
    *("mkdir -p n && echo 'gitdir: {checkout}/.git' > n/.git; cd n", "ln -s {checkout} link{n}; cd link{n}"),
    *("head -c 6000000 /dev/zero > big{n}.bin", "cp -r . ../copy{n}", "mv src lib", "chmod -x .", "true", "rm -rf src"),
    *("echo 'export GIT_DIR={checkout}/.git' > s.sh", "git init -q sub{n} && cd sub{n}", "echo '*' > .gitignore"),
]
PLAIN = [
    *(
        "git add -A && git commit -qm work{n}",
        "git commit --allow-empty -qm x",
        "git checkout -q -b new{n}",
        "git rm -q a.txt",
    ),
    *(
        "git checkout -q {own}",
        "git reset -q --hard HEAD~1",
        "git merge -q {b}",
        "git rebase -q {b}",
        "git checkout {b}",
    ),
    *("git cherry-pick {b}", "git switch -q {b}", "git fetch -q", "git push -q origin HEAD", "git pull -q origin main"),
    *("git branch new{n}", "git checkout --detach -q", "git commit -qam x", "git stash list", "git mv a.txt z{n}.txt"),
]
"""What agents often do; most of it needs no question."""

WRAPPERS = [
    *("{c}",) * 12,
    *(
        "({c})",
        "bash -c '{c}'",
        "env A=b {c}",
        "GIT_DIR={g} {c}",
        "export GIT_DIR={g}; {c}",
        "declare -x GIT_DIR={g}; {c}",
    ),
    *("env GIT_DIR={g} {c}", "cd {checkout} && {c}", "for x in 1; do {c}; done", 'eval "{c}"', "timeout 5 {c}"),
    *("f() {{ {c}; }}; f", "GIT_INDEX_FILE={checkout}/.git/index {c}", "X='{c}'; $X", "set -a; GIT_DIR={g}; {c}"),
    *("source s.sh; {c}", ". ./s.sh; {c}", "echo x | xargs {c}", "cd n && {c}", "GIT_COMMON_DIR={g} {c}", "exec {c}"),
    *("G={g}; {c}", "P=$(cut -c9- .git); {c}", "D={checkout}; {c}", "R={checkout}; {c}", "nohup {c}", "command {c}"),
    *(
        "export ${{N:-GIT_DIR}}={g}; {c}",
        "export GIT_WORK_TREE={checkout}; {c}",
        "read GIT_DIR < .git; export GIT_DIR; {c}",
    ),
]
JOINS = ["; ", " && ", " || ", "\n"]


class Lines:
    """Lines of one sequence. `names` has the paths and the branch of the worktree."""

    def __init__(self, chance: random.Random, names: dict[str, str]) -> None:
        self._chance = chance
        self._names = names

    def make(self) -> str:
        """Return one line of one to three commands."""
        count = self._chance.choice([1, 1, 1, 2, 2, 3])
        line = self._command()
        for _ in range(count - 1):
            line += self._chance.choice(JOINS) + self._command()
        return line

    def _command(self) -> str:
        pick = self._chance.choice
        kind = self._chance.random()
        if kind < 0.25:
            return self._fill(pick(FILES))
        if kind < 0.55:
            return self._fill(pick(PLAIN))
        name = pick(list(OPTIONS))
        command = self._fill(f"git {pick(GLOBALS)}{name} {pick(OPTIONS[name])}".rstrip())
        return self._fill(pick(WRAPPERS), c=command)

    def _fill(self, text: str, **more: str) -> str:
        pick = self._chance.choice
        own = self._names | {"n": str(self._chance.randrange(100))}
        values = {"b": pick(BRANCHES).format(**own), "r": pick(REMOTES).format(**own)}
        values["g"] = pick(GIT_DIRECTORIES).format(**own)
        return text.format(**own, **values, **more)
