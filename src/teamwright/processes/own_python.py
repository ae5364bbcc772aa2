"""The start of this installation in another process: no variable and no file of a project adds code to it.

Where Python itself finds this package, it starts isolated (`-I`): without `PYTHONPATH`, `sitecustomize` of a project,
and the user's own packages. An installation elsewhere (`pip install --user`, a source tree) starts without variables of
Python (`-E`) and without the working directory (`-P`), and this file, as a script, adds the directory of the package.

As a script it imports nothing of this package before that.
"""

from __future__ import annotations

import os
import sys


def own_python_argv(module: str, *options: str) -> tuple[str, ...]:
    """Return the program and the arguments that run this module of the package as a program.

    `options` are further ones of Python.
    """
    if sys.dont_write_bytecode and "-B" not in options:
        options = ("-B", *options)
    if _is_found_isolated():
        return (sys.executable, "-I", *options, "-m", module)
    return (sys.executable, "-E", "-P", *options, os.path.abspath(__file__), module)


def remove_project_modules() -> None:
    """Remove directories of projects from the module search of this program: the working directory, and what
    `PYTHONPATH` names in a repository or by a relative path.

    A command could put a file there that a later import would run outside of the sandbox. The directory of this package
    stays, also in a source tree.
    """
    named = {os.path.realpath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one}
    own = os.path.realpath(_root())
    sys.path[:] = [entry for entry in sys.path if not _is_projects(entry, own, named)]


def _is_projects(entry: str, own: str, named: set[str]) -> bool:
    real = os.path.realpath(entry)
    here = os.path.realpath(os.curdir)
    if real == own:
        return False
    return real == here or (real in named and (not os.path.isabs(entry) or _is_in_repository(real, here)))


def _is_in_repository(place: str, here: str) -> bool:
    while place != os.path.dirname(place):
        if place == here or os.path.lexists(os.path.join(place, ".git")):
            return True
        place = os.path.dirname(place)
    return False


def _root() -> str:
    """Return the directory that contains the package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _is_found_isolated() -> bool:
    import site

    root = os.path.realpath(_root())
    return any(os.path.realpath(directory) == root for directory in site.getsitepackages())


def _run(module: str, *arguments: str) -> None:
    import runpy

    root = _root()
    if root not in map(os.path.abspath, sys.path):
        sys.path.insert(0, root)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(*sys.argv[1:])
