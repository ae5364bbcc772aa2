"""The world of a session: a fresh clone whose files leave marks when they run, a person's home, and surroundings.

A mark is a line in a file outside the project. What a sandbox confines cannot write it, so each mark is a program of
the project that ran with the rights of the person. Depends on the snapshot. Knows neither verdicts nor calls.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.permissions.fuzz.snapshot import Snapshot
from tests.permissions.fuzz.surroundings import PROGRAM_NAMES, PROGRAM_PLACES, SCRIPTS, SHIMS, Case

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_SHELL_MARK = """{{ echo "${{0##*/}} $* in $PWD" >> '{marks}'; }} 2>/dev/null
"""
_PROGRAM = """#!/bin/sh
n=${{0##*/}}
{{ echo "$n $* in $PWD" >> '{marks}'; }} 2>/dev/null
for d in /usr/local/bin /usr/bin /bin; do
  [ -x "$d/$n" ] && exec "$d/$n" "$@"
done
case $n in mk_filter) exec /bin/cat;; mk_textconv|mk_pager) exec /bin/cat "$@";; esac
exit 127
"""
_SHIM = """#!/bin/sh
n=${{0##*/}} r='{root}' d=$PWD v=${{{variable}}}
while [ -z "$v" ] && [ -n "$d" ]; do
  [ -f "$d/{file}" ] && {{ read -r a b < "$d/{file}"; v=${{b:-$a}}; }}
  d=${{d%/*}}
done
v=${{v%%:system}}
case $v in
  path:*) p="$PWD/${{v#path:}}/bin/$n";;
  *) p="$r/versions/${{v#ref:}}/bin/$n";;
esac
[ -x "$p" ] && exec "$p" "$@"
for d in /usr/local/bin /usr/bin /bin; do
  [ -x "$d/$n" ] && exec "$d/$n" "$@"
done
echo "$n: command not found" >&2
exit 127
"""
_PYTHON_MARK = """try:
    with open({marks!r}, "a") as _file:
        _file.write(f"python {{__file__}} {{open('/proc/self/cmdline').read()[:200]!r}}\\n")
except OSError:
    pass
"""
_NODE_MARK = "try {{ require('fs').appendFileSync('{marks}', 'node ' + process.argv.join(' ') + '\\n') }} catch {{ }}\n"
_PERL_MARK = """package {name};
if (open(my $f, '>>', '{marks}')) {{ print $f "perl $0\\n"; }}
1;
"""
_RUBY_MARK = "begin; File.open('{marks}', 'a') {{ |f| f.puts 'ruby ' + $0 }}; rescue; end\n"
_LIBRARY = r"""
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void mark(void) {
  char name[200] = {0}; FILE *f = fopen(MARKS, "a");
  if (f && readlink("/proc/self/exe", name, 199) > 0) fprintf(f, "library in %s\n", name);
  if (f) fclose(f);
}
unsigned la_version(unsigned v) { return v; }
"""
_LIBRARIES = ("libmark.so", "libselinux.so.1", "libz.so.1", "libacl.so.1")
_HOSTILE = (
    "[core]\n\tfsmonitor = ./mark.sh\n\thooksPath = .githooks\n\tpager = ./mark.sh\n[diff]\n\texternal = ./mark.sh\n"
)
_HOOKS = (
    "post-index-change",
    "pre-commit",
    "post-checkout",
    "reference-transaction",
    "pre-auto-gc",
    "fsmonitor-watchman",
)
_TEXTS = {
    "a.py": "import os\n\n\ndef one():\n    return 'one'\n\n\nprint(one())\n",
    "b.py": "def one():\n    return 'one'\n",
    "src/main.py": "x = 1\nclass Main:\n    one = 1\n",
    "sub/x.txt": "one\n",
    "data.csv": "name,size\na,1\nb,22\n",
    "numbers": "3\n1\n2\n",
    "page.1": ".TH PAGE 1\n.SH NAME\npage \\- one\n",
    "ripgreprc": "--pre=./mark.sh\n",
    "lesskey": "#env\nLESSOPEN = |./mark.sh\n",
    "hostile.gitconfig": _HOSTILE,
    "xdg/git/config": _HOSTILE,
    "attributes": "* filter=y diff=y\n",
    ".npmrc": "node-options=--require=./mark.js\nscript-shell=./mark.sh\n",
}


def mark_text(name: str, marks: Path) -> str:
    """Return the text of a file of this name that leaves a mark when it is run or loaded."""
    if name.endswith(".py"):
        return _PYTHON_MARK.format(marks=str(marks))
    if name.endswith((".js", ".mjs", ".cjs")):
        return _NODE_MARK.format(marks=marks)
    if name.endswith(".pm"):
        return _PERL_MARK.format(marks=marks, name=Path(name).stem)
    if name.endswith(".pl"):
        return _PERL_MARK.format(marks=marks, name="main")
    if name.endswith(".rb"):
        return _RUBY_MARK.format(marks=marks)
    if name == "Makefile":
        return f"h:\n\t@echo make >> '{marks}'\n"
    if name == "package.json":
        return json.dumps({"name": "demo", "version": "1.0.0", "scripts": {"mcp": f"echo npm >> '{marks}'"}})
    return _PROGRAM.format(marks=marks)


def _harmless_text(name: str) -> str:
    """Return the text of a script before it is changed."""
    if name == "Makefile":
        return "h:\n\t@true\n"
    if name == "package.json":
        return json.dumps({"name": "demo", "version": "1.0.0", "scripts": {"mcp": "true"}})
    if name.endswith((".js", ".pl", ".py")):
        return "" if name.endswith(("__init__.py", ".js")) else "0\n" if name.endswith(".py") else "1;\n"
    return "#!/bin/sh\nexit 0\n"


class SurroundedWorld:
    """The directories of one base, which are made again for each case from a template."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.project, self.home, self.outside = base / "project", base / "home", base / "outside"
        self.state, self.marks, self.temporary = base / "state", base / "marks" / "log", base / "tmp"
        self.template = base / "template"
        self.variables: dict[str, str] = {}
        self.changed_after_trust: list[str] = []
        self._settings: dict[str, dict[str, list[object]]] = {}
        for place in (self.marks.parent, self.temporary, self.template):
            place.mkdir(parents=True)
        self._make_template()

    # ── the template ────────────────────────────────────────────────────────────────────────────────────────────

    def _make_template(self) -> None:
        project, home, outside = (self.template / name for name in ("project", "home", "outside"))
        for place in (project, home / ".ssh", outside):
            place.mkdir(parents=True)
        for name, text in _TEXTS.items():
            _write(project / name, text)
        marked = (
            "sitecustomize.py",
            "usercustomize.py",
            "mark_module.py",
            "teamwright/__init__.py",
            "teamwright/__main__.py",
        )
        for place in (project, project / "src", project / "userbase/lib/python3/site-packages"):
            for name in marked:
                self._mark(place / name)
        for version in range(11, 16):
            self._mark(project / f"userbase/lib/python3.{version}/site-packages/usercustomize.py")
        for name in (
            "mark.sh",
            "mark.js",
            "mark.mjs",
            "mark.rb",
            "perl/mark_module.pm",
            "perl/strict.pm",
            "perl/Config.pm",
        ):
            self._mark(project / name)
        for name in (*(f".githooks/{one}" for one in _HOOKS), "scripts/fsmonitor", "cl.sh"):
            self._mark(project / name)
        for name in PROGRAM_NAMES:
            self._mark(project / "evil/bin" / name)
        for directory in PROGRAM_PLACES:
            (project / directory).mkdir(parents=True, exist_ok=True)
        self._build_libraries(project / "lib")
        _pack(project)
        _git(project, home, "init", "-q", "-b", "main", "--template=")
        (project / ".git" / "hooks").mkdir()
        _git(project, home, "add", "-A")
        _git(project, home, "commit", "-q", "-m", "first")
        _write(project / "a.py", _TEXTS["a.py"] + "# more\n")
        _git(project, home, "commit", "-q", "-a", "-m", "second")
        _git(project, home, "branch", "other", "HEAD~1")
        _git(project, home, "tag", "v1", "HEAD~1")
        _git(project, home, "remote", "add", "origin", "ssh://git@127.0.0.1:1/x.git")
        _git(project, home, "gc", "-q", "--prune=now")
        _write(project / "b.py", _TEXTS["b.py"] + "# not committed\n")
        _write(home / ".bashrc", "# of the person\n")
        _write(home / ".ssh/authorized_keys", "key\n")
        _write(outside / "file", "outside\n")
        _write(outside / "cached", _TEXTS["a.py"])
        (home / "linked-bin").symlink_to("../project/bin")
        for place, (file, programs) in SHIMS.items():
            variable = place[1:].partition("/")[0].upper() + "_VERSION"
            for name in programs:
                root = self.home / place.partition("/")[0]
                _write(home / place / name, _SHIM.format(root=root, file=file, variable=variable), 0o755)
            (home / place.partition("/")[0] / "versions" / "3.11").mkdir(parents=True)

    def _mark(self, path: Path) -> None:
        _write(path, mark_text(path.name, self.marks), 0o755)

    def _build_libraries(self, place: Path) -> None:
        place.mkdir()
        if shutil.which("gcc") is None:
            return
        source = self.base / "mark.c"
        source.write_text(_LIBRARY)
        for name in _LIBRARIES:
            words = ["gcc", "-shared", "-fPIC", "-s", f'-DMARKS="{self.marks}"', str(source), "-o", str(place / name)]
            subprocess.run([*words, f"-Wl,-soname,{name}"], capture_output=True, check=False)

    # ── a case ──────────────────────────────────────────────────────────────────────────────────────────────────

    def build(self, case: Case) -> Snapshot:
        """Make everything again with the surroundings of the case, and return what must not change.

        Scripts of the repository's entries are harmless in a trusted repository, because the person has seen them.
        """
        for place in (self.project, self.home, self.outside, self.state, self.temporary):
            shutil.rmtree(place, ignore_errors=True)
        subprocess.run(["cp", "-a", f"{self.template}/.", str(self.base)], check=True)
        for place in (self.state, self.temporary):
            place.mkdir()
        self.marks.write_text("")
        for name in SCRIPTS:
            _write(self.project / name, _harmless_text(name) if case.trusted else mark_text(name, self.marks), 0o755)
        if case.trusted:  # who trusts `npm run` trusts what npm reads
            (self.project / ".npmrc").write_text("")
        self._settings, self.changed_after_trust = {}, []
        self.variables = {"PATH": SYSTEM_PATH, "HOME": str(self.home), "USER": "user", "LANG": "C.UTF-8"}
        self.variables |= {"TEAMWRIGHT_HOME": str(self.state), "TEAMWRIGHT_SANDBOX": case.sandbox}
        self.variables |= {"TMPDIR": str(self.temporary), "SHELL": "/bin/bash"}
        (self.home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.org\n[safe]\n\tdirectory = *\n")
        for one in case.surroundings:
            kind, _, value = one.partition(" ")
            _KINDS[kind](self, value.replace("{project}", str(self.project)).replace("{home}", str(self.home)))
        _git(self.project, self.template / "home", "update-index", "-q", "--refresh", check=False)
        return Snapshot((self.project, self.home, self.outside), self.base / "template")

    def change_after_trust(self) -> None:
        """Change the scripts that the case names, as a pull of another version would."""
        for name in self.changed_after_trust:
            _write(self.project / name, mark_text(name, self.marks), 0o755)

    def add_path(self, value: str) -> None:
        """Put entries on the PATH; `*` is what was there. The names behind it are programs in these directories."""
        path, *names = value.split(" ")
        for entry in path.split(":"):
            place = os.path.realpath(self.project / entry)
            if entry != "*" and f"{place}/".startswith(f"{self.project}/"):
                for name in names:
                    if not Path(place, name).is_dir():
                        self._mark(Path(place, name))
        self.variables["PATH"] = path.replace("*", self.variables["PATH"])

    def add_variables(self, value: str) -> None:
        """Set variables of the person: `NAME=VALUE NAME=VALUE`."""
        for one in re.split(r" (?=[A-Za-z_]\w*=)", value):
            name, _, text = one.partition("=")
            self.variables[name] = text

    def add_git_setting(self, value: str) -> None:
        """Set a key in the person's git configuration, and give every file the attributes that filters need."""
        name, _, text = value.partition("=")
        _git(self.project, self.home, "config", "--file", str(self.home / ".gitconfig"), "--add", name, text)
        self._write_attributes("y")

    def add_version(self, value: str) -> None:
        """Write a version file, and put the shims that read it on the PATH."""
        place, file, text = value.split(" ", 2)
        _write(self.project / file, f"{text}\n")
        self.add_path(f"{self.home}/{place}:*")

    def add_link(self, value: str) -> None:
        """Make a hard link in the project to a file elsewhere."""
        name, target = value.split(" ")
        path = self.base / target
        if not path.exists():
            _write(path, "#!/bin/sh\n", 0o755)
        (self.project / name).unlink(missing_ok=True)
        os.link(path, self.project / name)

    def add_hook(self, value: str) -> None:
        """Add a hook to the person's own settings."""
        event, _, command = value.partition(" ")
        self._add_hook(self.state / "settings.json", event, command)

    def add_entry(self, value: str) -> None:
        """Add an entry to the repository's own settings: a hook, a server, a skill, a filter of git."""
        kind, event, command = value.split(" ", 2)
        if kind == "hook":
            self._add_hook(self.project / ".teamwright" / "settings.json", event, command)
        elif kind == "server":
            server = {"command": "sh", "args": ["-c", command]}
            _write(self.project / ".mcp.json", json.dumps({"mcpServers": {"probe": server}}))
        elif kind == "skill":
            text = f"---\nname: probe\ndescription: says one\n---\nOne: !`{command}`\n"
            _write(self.project / ".claude/skills/probe/SKILL.md", text)
        else:
            _git(self.project, self.template / "home", "config", "filter.x.clean", command)
            self._write_attributes("x")

    def add_change(self, value: str) -> None:
        """Remember a file that is changed after trust."""
        self.changed_after_trust.append(value)

    def _add_hook(self, path: Path, event: str, command: str) -> None:
        hooks = self._settings.setdefault(str(path), {})
        hooks.setdefault(event, []).append({"hooks": [{"type": "command", "command": command, "timeout": 5}]})
        _write(path, json.dumps({"hooks": hooks}))

    def _write_attributes(self, name: str) -> None:
        _write(self.project / ".gitattributes", f"* filter={name} diff={name} merge={name}\n")


_KINDS: Mapping[str, Callable[[SurroundedWorld, str], None]] = {
    "path": SurroundedWorld.add_path,
    "variable": SurroundedWorld.add_variables,
    "git": SurroundedWorld.add_git_setting,
    "version": SurroundedWorld.add_version,
    "link": SurroundedWorld.add_link,
    "hook": SurroundedWorld.add_hook,
    "entry": SurroundedWorld.add_entry,
    "changed": SurroundedWorld.add_change,
}


def _pack(project: Path) -> None:
    numbers = (project / "numbers").read_bytes()
    (project / "numbers.gz").write_bytes(gzip.compress(numbers, mtime=0))
    (project / "numbers.xz").write_bytes(lzma.compress(numbers))
    (project / "numbers.bz2").write_bytes(bz2.compress(numbers))
    for name, kind in (("x.tar", "w"), ("x.tar.gz", "w:gz"), ("x.tar.xz", "w:xz"), ("x.tar.bz2", "w:bz2")):
        with tarfile.open(project / name, kind) as archive:
            archive.add(project / "a.py", "a.py")
            archive.add(project / "numbers", "numbers")
    with zipfile.ZipFile(project / "x.zip", "w") as archive:
        archive.write(project / "a.py", "a.py")


def _git(project: Path, home: Path, *arguments: str, check: bool = True) -> None:
    env = {"PATH": SYSTEM_PATH, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org", f"GIT_{role}_DATE": "1700000000 +0000"}
    # The world is built without its own filters: what they leave is of the product alone.
    switches = ("safe.directory=*", "core.fsmonitor=false", "filter.x.clean=", "filter.y.clean=", "filter.y.process=")
    words = ["git", *(word for one in switches for word in ("-c", one)), *arguments]
    subprocess.run(words, cwd=project, env=env, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
