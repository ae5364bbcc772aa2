"""The check that the mounts of a command show the directories that its policy names, before the command starts.

bubblewrap follows links. Another command of the session may put a link in the place of a directory after the policy was
made, and the mount would make what it leads to writable. So a shell compares the table of mounts with what is expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teamwright.sandbox.mount_points import escape, mount_of, read_mounts

_BINDS = frozenset({"--bind", "--ro-bind"})
_LOADER = "LD_"
"""Variables of the program loader begin so: libraries of a project must not be loaded before the check."""

_SCRIPT = r"""
count=$1 expected=$2 seen='
'
shift 2
table=$(PATH=/usr/bin:/bin:/run/current-system/sw/bin cat /proc/self/mountinfo 2>/dev/null) ||
  table=$(while read -r line; do printf '%s\n' "$line"; done </proc/self/mountinfo)
set -f
IFS='
'
for line in $table; do
  line=${line#* * * }
  root=${line%% *}
  point=${line#* }
  point=${point%% *}
  case $expected in
    *"
$root $point
"*) case $seen in *"
$point
"*) ;; *) seen="$seen$point
" count=$((count - 1)) ;; esac ;;
    *" $point
"*) count=-1; break ;;
  esac
done
set +f
[ "$count" = 0 ] && exec "$@"
echo 'the sandbox did not start: another command replaced a directory in that time; run it again' >&2
exit 126
"""
"""`cat` reads the table, because the shell would read it byte by byte. Where `cat` is in none of its usual directories,
the shell does."""


def with_mount_check(
    argv: Sequence[str], options: Sequence[str], changeable: Sequence[str], env: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the arguments that check the mounts and start the same program, and their environment.

    `options` are those of bubblewrap; `changeable` are directories in which commands can replace others.
    """
    expected = _expected(options, changeable)
    if not expected:
        return list(argv), env
    loading = [f"{name}={value}" for name, value in env.items() if name.startswith(_LOADER)]
    given = ["/usr/bin/env", *loading, *argv] if loading else argv
    table = "".join(f"{escape(root)} {escape(path)}\n" for path, root in expected.items())
    kept = {name: value for name, value in env.items() if not name.startswith(_LOADER)}
    return ["/bin/sh", "-c", _SCRIPT, "sh", str(len(expected)), f"\n{table}", *given], kept


def _expected(options: Sequence[str], changeable: Sequence[str]) -> Mapping[str, str]:
    """Return what each mount inside of a changeable directory must show, by its path."""
    tops = tuple(f"{top.rstrip('/')}/" for top in changeable)
    steps = list(zip(options, options[1:], options[2:], strict=False))
    covered = {target for kind, path, target in steps if kind in _BINDS and path != target}
    covered |= {path for kind, path, _ in steps if kind == "--tmpfs"}
    paths = {path for kind, path, target in steps if kind in _BINDS and path == target and path.startswith(tops)}
    paths = {path for path in paths - covered if not path.startswith("/proc/")}  # that of the command is another one
    mounts = read_mounts() if paths else []
    return {path: mount.inner(path) for path in paths if (mount := mount_of(path, mounts)) is not None}
