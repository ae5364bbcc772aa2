"""Rename modules and symbols of the project as a table says: `python scripts/rename.py TABLE...`.

A line of the table is one of

    teamwright.a.old -> teamwright.b.new          a module or a package moves, with the files beside it
    merge teamwright.a.x -> teamwright.a.y        the contents of a module go into another one
    teamwright.a.old:Name -> New                  a class, function or constant; `Name.member` in a class

Symbols are renamed first, by pyright's language server: it finds the references that a text search would confuse.
All references are asked for before any file changes. Modules are moved with `git mv` afterwards.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
TEXTS = ("*.py", "*.md", "*.toml", "*.txt", "*.json", "Makefile", ".ci/*", "*.sh", "*.js")
TOPS = {path.name for path in (SRC / "teamwright").iterdir() if path.is_dir()}
SERVER = [str(ROOT / ".venv" / "bin" / "pyright-langserver"), "--stdio"]


EMPTY = '"""TODO."""\n'
CONFIG = ROOT / "pyrightconfig.json"
"""While the server runs: the settings of the type checker do not include the tests."""


class LanguageServer:
    """Pyright's language server over its standard streams."""

    def __init__(self) -> None:
        CONFIG.write_text(json.dumps({"include": ["src", "tests", "bench", "examples"], "typeCheckingMode": "off"}))
        self._process = subprocess.Popen(SERVER, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        folder = {"uri": ROOT.as_uri(), "name": "project"}
        self.request("initialize", processId=None, rootUri=ROOT.as_uri(), workspaceFolders=[folder],
                     capabilities={"workspace": {"configuration": True, "workspaceFolders": True,
                                                 "workspaceEdit": {"documentChanges": False}}})  # fmt: skip
        self._send({"method": "initialized", "params": {}})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout
        length = 0
        while (line := self._process.stdout.readline().strip()) or not length:
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(self._process.stdout.read(length))

    def request(self, method: str, **params: Any) -> Any:
        """Return the result of a request; answer what the server asks in the time between."""
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                answers: Any = None
                if message["method"] == "workspace/configuration":
                    answers = [self._settings(item.get("section", "")) for item in message["params"]["items"]]
                self._send({"id": message["id"], "result": answers})
            elif message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return message.get("result")

    def _settings(self, section: str) -> dict[str, Any]:
        if section == "python":
            return {"pythonPath": str(ROOT / ".venv" / "bin" / "python")}
        if section == "python.analysis":
            return {"diagnosticMode": "openFilesOnly", "indexing": False}
        return {}

    def open(self, path: Path) -> None:
        """Open a document, which a request about it needs."""
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": path.read_text()}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def references(self, path: Path, line: int, column: int) -> list[tuple[Path, int, int]]:
        """Return each place that names the symbol at a position (line and column from 0), its declaration too."""
        found = self.request(
            "textDocument/references",
            textDocument={"uri": path.as_uri()},
            position={"line": line, "character": column},
            context={"includeDeclaration": True},
        )
        places = [(Path(unquote(urlparse(f["uri"]).path)), f["range"]["start"]) for f in found or ()]
        return [(path, start["line"], start["character"]) for path, start in places]

    def close(self) -> None:
        """End the server."""
        CONFIG.unlink()
        self._process.kill()
        self._process.wait()


def file_of(module: str) -> Path:
    """Return the file of a module or package."""
    path = SRC.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def position_of(module: str, symbol: str) -> tuple[int, int]:
    """Return line and column, from 0, of the name in the definition of a symbol. Raises LookupError."""
    path = file_of(module)
    text = path.read_text()
    nodes: list[ast.AST] = [ast.parse(text)]
    lines = text.splitlines()
    *outer, last = symbol.split(".")
    for name in outer:
        inner = (n for node in nodes for n in ast.walk(node))
        nodes = [
            n for n in inner if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name
        ]
    for node in nodes:
        for at in _named(node, last, bool(outer)):
            column = lines[at[0]].encode()[: at[1]].decode()
            start = re.compile(rf"\b{re.escape(last)}\b").search(lines[at[0]], len(column))
            if start:
                return at[0], start.start()
    raise LookupError(f"{module}:{symbol}")


def _named(scope: ast.AST, name: str, inside: bool) -> Iterator[tuple[int, int]]:
    children: list[ast.AST] = list(ast.walk(scope)) if inside else list(ast.iter_child_nodes(scope))
    if not inside:  # definitions under `if TYPE_CHECKING` and the like
        children += [c for n in children if isinstance(n, ast.If | ast.Try) for c in ast.walk(n)]
    for node in children:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                yield node.lineno - 1, node.col_offset
            case ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                yield node.lineno - 1, node.col_offset
            case ast.AnnAssign(target=ast.Attribute(attr=found)) if found == name and inside:
                yield node.lineno - 1, node.col_offset
            case ast.Assign(targets=targets):
                for target in ast.walk(ast.Module([ast.Expr(t) for t in targets], [])):
                    if isinstance(target, ast.Name) and target.id == name:
                        yield target.lineno - 1, target.col_offset
                    if isinstance(target, ast.Attribute) and target.attr == name and inside:
                        yield target.lineno - 1, target.col_offset
            case ast.arg(arg=found) if found == name and inside:
                yield node.lineno - 1, node.col_offset
            case _:
                pass


def rename_symbols(table: list[tuple[str, str, str]]) -> None:
    """Rename each (module, symbol, new name) wherever it is used."""
    server = LanguageServer()
    warm = file_of("teamwright.protocol.ids")
    server.open(warm)
    server.references(warm, 0, 0)
    time.sleep(5)  # the first answer comes before the server has listed all files
    edits: dict[Path, dict[tuple[int, int], tuple[str, str]]] = {}
    slots: list[tuple[Path, str, str]] = []
    opened: set[Path] = set()
    missing = 0
    for done, (module, symbol, new) in enumerate(table):
        path, old = file_of(module), symbol.rpartition(".")[2]
        try:
            at = position_of(module, symbol)
        except (LookupError, OSError) as error:
            print(f"not found: {error}", file=sys.stderr)
            missing += 1
            continue
        if path not in opened:
            server.open(path)
            opened.add(path)
        found = server.references(path, *at)
        if not done:
            time.sleep(5)
            found = server.references(path, *at)
        for place, line, column in found:
            if ROOT in place.parents and ".venv" not in place.parts:
                edits.setdefault(place, {})[line, column] = (old, new)
        slots.append((path, old, new))
        print(f"{done + 1}/{len(table)} {module}:{symbol} -> {new}: {len(found)}", flush=True)
    server.close()
    for path, places in edits.items():
        _apply(path, places)
    for path, old, new in slots:
        _rename_in_slots(path, old, new)
    if missing:
        print(f"{missing} symbols were not found", file=sys.stderr)


def _apply(path: Path, places: dict[tuple[int, int], tuple[str, str]]) -> None:
    lines = path.read_text().split("\n")
    for (line, column), (old, new) in sorted(places.items(), reverse=True):
        text = lines[line]
        column = len(text.encode("utf-16-le")[: 2 * column].decode("utf-16-le"))
        if text[column : column + len(old)] == old:
            lines[line] = text[:column] + new + text[column + len(old) :]
        elif text[column : column + len(new)] != new:
            print(f"{path}:{line + 1}: {old} is not here", file=sys.stderr)
    path.write_text("\n".join(lines))


def _rename_in_slots(path: Path, old: str, new: str) -> None:
    """Rename a slot: it is a string, which the language server leaves alone."""
    text = path.read_text()
    path.write_text(re.sub(
        r"__slots__ = (\([^)]*\)|\[[^]]*\])",
        lambda found: re.sub(rf'"{re.escape(old)}"', f'"{new}"', found[0]), text))  # fmt: skip


def merge_modules(table: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put each first module into the second one. Returns what was merged; what cannot be is reported."""
    merged: list[tuple[str, str]] = []
    for source, target in table:
        one, other = file_of(source), file_of(target)
        if not (one.is_file() and other.is_file()) or other.name == "__init__.py":
            print(f"merge {source} -> {target}: no such module", file=sys.stderr)
            continue
        first, second = _Parts(one), _Parts(other)
        both = first.names & second.names
        package, _, name = source.rpartition(".")
        used = subprocess.run(
            ["git", "grep", "-lE", rf"from {re.escape(package)} import (.*, )?{name}(,|$| as )", "--", "*.py"],
            cwd=ROOT, capture_output=True, text=True, check=False).stdout  # fmt: skip
        lines = first.text.count("\n") + second.text.count("\n")
        if both or used or lines > 430:
            print(f"merge {source} -> {target}: {sorted(both)} {used.split()} {lines}", file=sys.stderr)
            continue
        own = re.compile(rf"^from (?:{re.escape(source)}|{re.escape(target)}) import (?:\([^)]*\)|[^\n]*)\n", re.M)
        imports = own.sub("", first.imports + second.imports)
        other.write_text(second.doc + imports + first.body.rstrip() + "\n\n\n" + second.body.lstrip("\n"))
        _git("rm", "-q", "-f", str(one))
        for beside in one.parent.glob(f"{one.stem}.md"):
            _git("mv", str(beside), str(other.with_suffix(".md")))
        merged.append((source, target))
    return merged


class _Parts:
    """A module in three pieces: docstring, imports, and all that follows."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        tree = ast.parse(self.text)
        lines = self.text.splitlines(keepends=True)
        at = 0
        for node in tree.body:
            doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            guard = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if not (isinstance(node, ast.Import | ast.ImportFrom) or (doc and at == 0) or guard):
                break
            at = node.end_lineno or at
        start = (tree.body[0].end_lineno or 0) if ast.get_docstring(tree) else 0
        self.doc, self.imports, self.body = "".join(lines[:start]), "".join(lines[start:at]), "".join(lines[at:])
        self.names = {
            name
            for node in tree.body
            for name in (
                [node.name]
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                else [
                    t.id for t in getattr(node, "targets", [getattr(node, "target", None)]) if isinstance(t, ast.Name)
                ]
            )
        } - {"__all__", "T"}


def move_modules(table: list[tuple[str, str]], merged: list[tuple[str, str]]) -> None:
    """Move modules and packages, and rewrite each name and path of them in the texts of the project."""
    files = [(old, new) for old, new in table if not SRC.joinpath(*old.split(".")).is_dir()]
    folders = [row for row in table if row not in files]
    waiting: list[tuple[Path, Path]] = []
    for number, (old, new) in enumerate(files):
        source, target = SRC.joinpath(*old.split(".")), SRC.joinpath(*new.split("."))
        for path in sorted(source.parent.glob(f"{source.name}.*")):
            between = source.parent / f"_moving_{number}{path.suffix}"
            _git("mv", str(path), str(between))
            waiting.append((between, target.parent / f"{target.name}{path.suffix}"))
    for between, path in waiting:
        _ensure_package(path.parent)
        _git("mv", str(between), str(path))
    for old, new in sorted(folders, key=lambda row: -row[0].count(".")):
        source, target = SRC.joinpath(*old.split(".")), SRC.joinpath(*new.split("."))
        _ensure_package(target.parent)
        _move_folder(source, target)
    for path in sorted(SRC.rglob("__init__.py"), key=lambda path: -len(path.parts)):
        if {entry.name for entry in path.parent.iterdir()} <= {"__init__.py", "__pycache__"}:
            _git("rm", "-q", "-f", str(path))
            shutil.rmtree(path.parent, ignore_errors=True)
    ways = dict(table) | {old: _moved(new, table) for old, new in merged}
    dotted = re.compile(r"(?<![\w./])teamwright(?:\.\w+)+")
    slashed = re.compile(r"(?<![\w-])\w+(?:/\w+)+")
    for path in _texts():
        text = path.read_text()
        made = _from_imports(text, ways) if path.suffix == ".py" else text
        made = dotted.sub(lambda found: _renamed(found[0], ways), made)
        made = slashed.sub(lambda found: _renamed_path(found[0], ways), made)
        if made != text:
            path.write_text(made)


def _renamed(name: str, ways: dict[str, str]) -> str:
    """Return a dotted name after the moves: that of a module, or of something in one."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        if (new := ways.get(".".join(parts[:count]))) is not None:
            return ".".join([new, *parts[count:]])
    return name


def _renamed_path(path: str, ways: dict[str, str]) -> str:
    """Return a path after the moves; it begins in `src`, in the package or below it."""
    head = next((head for head in ("src/teamwright/", "teamwright/", "") if path.startswith(head)), "")
    inner = path.removeprefix(head)
    if not head and inner.partition("/")[0] not in TOPS:
        return path
    new = _renamed("teamwright." + inner.replace("/", "."), ways)
    return head + new.removeprefix("teamwright.").replace(".", "/")


def _moved(name: str, table: list[tuple[str, str]]) -> str:
    """Return where a module is after the moves."""
    for old, new in sorted(table, key=lambda row: -len(row[0])):
        if name == old or name.startswith(f"{old}."):
            return new + name[len(old) :]
    return name


def _move_folder(source: Path, target: Path) -> None:
    if not target.is_dir():
        _git("mv", str(source), str(target))
        return
    for entry in sorted(source.iterdir()):
        beside = target / entry.name
        if entry.name == "__init__.py" and beside.read_text() == EMPTY:
            beside.write_text(entry.read_text())
        if entry.name == "__init__.py":
            _git("rm", "-q", "-f", str(entry))
        elif entry.is_dir() and beside.is_dir():
            _move_folder(entry, beside)
        elif entry.name != "__pycache__":
            _git("mv", str(entry), str(beside))
    shutil.rmtree(source, ignore_errors=True)


def _from_imports(text: str, table: dict[str, str]) -> str:
    """Rewrite `from package import module` for modules that moved, and the names by which they are used then."""
    whole = r"^([ \t]*)from (teamwright[\w.]*) import \(?(\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)\)?$"
    for found in re.finditer(whole, text, flags=re.M):
        indent, package, names = found.groups()
        lines: list[str] = []
        moved = False
        for name in names.split(", "):
            old, _, alias = name.partition(" as ")
            if f"{package}.{old}" not in table:
                lines.append(f"{indent}from {package} import {name}")
                continue
            moved = True
            target, _, new = table[f"{package}.{old}"].rpartition(".")
            lines.append(f"{indent}from {target} import {new}{f' as {alias}' if alias else ''}")
            if new != old and not alias:
                text = re.sub(rf"(?<![\w.\"'/]){old}(?=[.,)\n])(?! import)", new, text)
        if moved:
            text = re.sub(rf"^{re.escape(indent)}from {re.escape(package)} import \(?[\w, ]*\)?$",
                          lambda _found, lines=lines: "\n".join(lines), text, count=1, flags=re.M)  # fmt: skip
    return text


def _ensure_package(folder: Path) -> None:
    while folder != SRC and not (folder / "__init__.py").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(EMPTY)
        _git("add", str(folder / "__init__.py"))
        folder = folder.parent


def _texts() -> list[Path]:
    names = subprocess.run(["git", "ls-files", *TEXTS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [ROOT / name for name in names.splitlines() if not name.startswith(("scripts/", "CHANGELOG"))]
    return [path for path in found if path.is_file()]


def _git(*args: str) -> None:
    subprocess.run(["git", *args], cwd=ROOT, check=True)


def main() -> None:
    """Read the table and carry it out."""
    symbols: list[tuple[str, str, str]] = []
    modules: list[tuple[str, str]] = []
    merges: list[tuple[str, str]] = []
    for line in (line for path in sys.argv[1:] for line in Path(path).read_text().splitlines()):
        words = line.partition("#")[0].split(" -> ")
        if len(words) == 2:
            old, new = words[0].strip(), words[1].strip()
            module, _, symbol = old.partition(":")
            if old.startswith("merge "):
                merges.append((old.removeprefix("merge ").strip(), new))
            elif symbol:
                symbols.append((module, symbol, new))
            else:
                modules.append((old, new))
    if symbols:
        rename_symbols(symbols)
    merged = merge_modules(merges)
    if modules or merged:
        move_modules(modules, merged)


if __name__ == "__main__":
    main()
