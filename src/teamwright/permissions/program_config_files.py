"""The files and variables that programs of a trusted line obey: the tables of `executed_file_search`.

A program in none of these tables may obey any file. Tables only; the pages of the programs are their sources: curl(1),
wget(1), rg(1), sort(1), jq(1), git(1), "Command line" of Python and of Node.
"""

from __future__ import annotations

import re

from teamwright.shell_lines.command_words import word_set

PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*|ipython")
SHELLS = word_set("sh bash dash zsh ksh fish ash mksh source .")
NODE = word_set("node nodejs")
INTERPRETERS = word_set(
    "deno bun tsx ts-node ruby perl php lua luajit Rscript tclsh wish osascript pwsh java dotnet guile"
    " racket escript elixir groovy scala kotlin swift julia"
)
"""Interpreters that load code in more ways than are followed here."""

RUNNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake", "remake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(
        ("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node-gyp", "turbo", "nx", "lerna", "corepack"),
        ("package.json",),
    ),
    "just": ("justfile", "Justfile", ".justfile"),
    **dict.fromkeys(
        ("task", "go-task"),
        ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml"),
    ),
    "rake": ("Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    "fab": ("fabfile.py",),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini", "pyproject.toml", "setup.cfg"),
    "pytest": ("conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"),
    **dict.fromkeys(
        ("docker", "podman", "docker-compose", "podman-compose", "nerdctl"),
        ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Dockerfile", "Containerfile"),
    ),
    "pre-commit": (".pre-commit-config.yaml",),
    "lefthook": ("lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json"),
    "cargo": ("Cargo.toml", "build.rs"),
    "go": ("go.mod", "go.work"),
    **dict.fromkeys(
        ("gradle", "gradlew"), ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
    ),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml",)),
    "ant": ("build.xml",),
    **dict.fromkeys(("bundle", "bundler"), ("Gemfile",)),
    "composer": ("composer.json",),
    "mix": ("mix.exs",),
    **dict.fromkeys(("uv", "uvx", "poetry", "pdm", "hatch", "rye", "pipx", "pipenv"), ("pyproject.toml", "Pipfile")),
    "deno": ("deno.json", "deno.jsonc"),
    **dict.fromkeys(("foreman", "honcho", "overmind", "hivemind"), ("Procfile",)),
    "bazel": ("BUILD", "BUILD.bazel", "WORKSPACE", "MODULE.bazel"),
    "cmake": ("CMakeLists.txt",),
    "ninja": ("build.ninja",),
    "vagrant": ("Vagrantfile",),
    **dict.fromkeys(
        ("eslint", "eslint_d"),
        (
            *(f"eslint.config.{end}" for end in ("js", "mjs", "cjs", "ts", "mts", "cts")),
            *(f".eslintrc{end}" for end in ("", ".js", ".cjs", ".json", ".yaml", ".yml")),
        ),
    ),
    **dict.fromkeys(
        ("prettier", "prettierd"),
        (
            *(".prettierrc", ".prettierrc.json", ".prettierrc.yaml", ".prettierrc.yml", ".prettierrc.toml"),
            *(f"{name}.{end}" for name in (".prettierrc", "prettier.config") for end in ("js", "mjs", "cjs", "ts")),
        ),
    ),
    **dict.fromkeys(
        ("jest", "vitest", "vite", "webpack", "rollup", "stylelint", "playwright", "lint-staged", "husky", "tsup"),
        ("package.json",),
    ),
    **dict.fromkeys(("mypy", "dmypy"), ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")),
    "pylint": (".pylintrc", "pylintrc", "pyproject.toml", "setup.cfg", "tox.ini"),
    "flake8": (".flake8", "setup.cfg", "tox.ini"),
    "rubocop": (".rubocop.yml",),
    "rspec": (".rspec",),
    "phpunit": ("phpunit.xml", "phpunit.xml.dist"),
    "terraform": ("main.tf",),
}
"""Programs that run what a file of the project says, and the names of that file in the directory or above it."""

PLAIN_PROGRAMS = word_set(
    "cd pushd popd dirs echo printf read mapfile readarray export unset local declare typeset readonly set shift"
    " test [ [[ ]] true false : exit return break continue trap umask ulimit wait kill sleep date tee tr cut sort"
    " uniq head tail grep egrep fgrep rg jq yq cat wc nl basename dirname realpath readlink pwd ls stat file touch"
    " mkdir rmdir rm cp mv ln chmod mktemp env id whoami hostname uname curl wget logger notify-send say"
    " afplay paplay beep tput column diff cmp comm md5sum sha1sum sha256sum shasum base64 od xxd seq yes command"
    " type which hash alias unalias getopts shopt let times caller disown fg bg jobs pgrep ps df du exec"
)
"""Programs and builtins of a shell that run no code of a project, unless `OBEYING_WORDS` says when they do."""

OBEYING_WORDS: dict[str, re.Pattern[str]] = {
    "curl": re.compile(r"-[A-Za-z0-9#]*K.*|--conf.*", re.DOTALL),
    "wget": re.compile(r"-[A-Za-z]*e.*|--(?:ex|conf|use-a).*", re.DOTALL),
    "rg": re.compile(r"--pre(?!-glob).*", re.DOTALL),
    "sort": re.compile(r"--co.*", re.DOTALL),
    **dict.fromkeys(
        ("jq", "yq"),
        re.compile(
            r"-[A-Za-z]*[fL].*|--(?:from-file|lib|exp|sec|split-exp).*|.*\b(?:import|include|load\w*|eval|system)\b.*",
            re.DOTALL,
        ),
    ),
}
"""Words with which a plain program obeys a file or starts another program: `curl -K`, `jq include`, `rg --pre`."""

PROVEN_PROGRAMS = word_set("awk gawk mawk nawk sed gsed")
"""Programs whose own language can start programs: known only where the line is proven to read, or to edit in place."""

GIT_CHANGES = word_set("add rm mv reset restore tag notes update-index ls-remote fetch remote stash")
"""Commands of git that run no hook and no alias. The programs of its settings have their own entries of trust."""

GIT_RESTORES = word_set("mv reset restore stash")
"""Those that put other contents into the work tree."""

GIT_SHOWS = word_set("status diff log show rev-parse ls-files blame describe branch shortlog cat-file rev-list")
"""Commands of git that print, also with words that the shell finds."""

GIT_PLAIN_OPTIONS = frozenset({"-P", "--no-pager", "--no-optional-locks", "--literal-pathspecs"})

GIT_STARTS = re.compile(r"-(?:O|x|u|e)|--(?:ext|textconv|open|exec|show-sig|output|edit|contents|no-index|upl)|.*::")
"""Words with which they start a program."""

GH_READS = word_set("pr issue run release repo workflow search label auth cache ruleset")
GH_VERBS = word_set("list view status diff checks comment edit review close reopen ready watch")
"""Commands of gh that run no alias, no extension, and no command of git with hooks."""

HARMLESS_PYTHON_MODULES = frozenset({"json.tool", "base64", "calendar"})

WRITING_PROGRAMS = word_set("cp mv ln tee curl wget sort uniq yq xxd sed gsed")
"""Plain programs that write files which they are given."""

SETTING_BUILTINS = word_set("read mapfile readarray printf getopts export declare typeset local readonly for select")
"""Builtins whose words may be names of variables."""

MOVING_VARIABLES = re.compile(r"HOME|XDG_\w+|GIT_(?!AUTHOR_|COMMITTER_)\w+")
"""Variables beyond those of `program_environment` by which plain programs find settings."""

PYTHON_LOADS = re.compile(
    r"\b(?:subprocess|pty|pexpect|plumbum|importlib|runpy|ctypes|cffi|pickle|dill|shelve|marshal|zipimport|multiprocessing"
    r"|ProcessPoolExecutor|load_extension|unsafe_load|resolve_name|load_source)\b"
    r"|\bos\s*\.\s*(?:system|popen|exec|spawn|posix_spawn|startfile|fork|__dict__)"
    r"|\bfrom\s+(?:os|sys)\s+import|\bimport\s+os\s+as\b|\byaml\s*\.\s*load\s*\("
    r"|(?<![\w.])(?:exec|eval|compile|execfile|__import__)\s*\(|\bsys\s*\.\s*(?:path|meta_path|path_hooks)\b"
    r"|\bcreate_subprocess_|\baddsitedir\b|\bPopen\b"
    r"|\b(?:import|from)\b[^\n#]*\b(?:imp|pkgutil|pydoc|unittest|doctest|pytest|webbrowser|posix|builtins|codeop|setuptools"
    r"|distutils|cloudpickle|joblib|multiprocess|sh|git|invoke|fabric|nox|pdb|cProfile|timeit|logging\.config)\b"
)
"""Words by which a Python program starts programs, or loads code by a name that it computes."""

NODE_LOADS = re.compile(
    r"child_process|worker_threads|\bcluster\b|\bcreateRequire\b|\bdlopen\b|(?<![\w.])eval\s*\(|(?<![\w.])(?:new\s+)?Function\s*\("
    r"|(?<![\w.])(?:exec|execSync|spawn|spawnSync|fork)\s*\(|\b(?:require|import)\s*\((?!\s*[\"'])|\bmodule\.paths\b"
    r"|\b(?:node:)?vm[\"']|\b(?:node:)?module[\"']|\b(?:node:)?(?:inspector|repl|test|sqlite)(?:/\w+)?[\"']"
    r"|\bprocess\s*\.\s*(?:binding|_linkedBinding|getBuiltinModule|mainModule)\b|\bloadExtension\b|\bnew\s+Worker\b"
    r"|\bWebAssembly\b|\bimport\.meta\.resolve\b"
)
NODE_ENDS = (".js", ".mjs", ".cjs", ".ts", ".json", ".node", "/index.js", "/package.json")
"""Ends that Node adds to a name; another file there would be loaded instead."""

NODE_OPTION = re.compile(
    r"--(?:no-warnings|enable-source-maps|no-deprecation|trace-\w[\w-]*|max-old-space-size=\d+|no-\w[\w-]*)"
)
"""Options of Node that load nothing."""

NODE_BUILTINS = word_set(
    "assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain"
    " events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl"
    " stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib"
)
