"""Lines that hide another command: whatever hides it, it is never allowed by chance and never escapes a deny rule.

bash is the judge: a line that is let through is really run, with a `git` and an `rm` that only leave a mark.
"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from tests.support.examples import examples
from tests.support.waits import WAIT_S

HIDDEN = ["git push", "git push origin main", "rm -rf sub"]
SAFE = ["ls", "echo x", "cat a.py", "true", "wc -l < a.py", "git status", "x=1", "pwd", "echo $HOME", "cd sub"]
JOINTS = ["; ", " && ", " || ", " | ", " & ", "\n", " \\\n&& ", ";\n\n", " |& "]

# %c is the command, %q the command quoted, %w its first word, %a the rest; ⏎ ends a line, ⇥ is a tab
HIDES = [
    line.replace("⏎", "\n").replace("⇥", "\t")
    for line in r"""
%c
$(%c)
`%c`
echo "$(%c)"
echo "`%c`"
echo ${x:-$(%c)}
echo "${x:=`%c`}"
echo $(echo $(%c))
cat <(%c)
ls > >(%c)
cat < <(%c)
tee >(%c) < a.py
echo x > $(%c)
cat < $(%c)
ls 2>`%c`
cat <<EOF⏎$(%c)⏎EOF
cat <<EOF⏎`%c`⏎EOF
cat <<-EOF⏎⇥$(%c)⏎⇥EOF
cat <<EOF⏎x ${y:-$(%c)}⏎EOF
cat <<E⏎x⏎E⏎%c
cat <<'E'⏎x⏎E⏎%c
cat <<"E"x⏎$(ls)⏎Ex⏎%c
cat <<\E⏎%c⏎E⏎%c
cat <<E⏎\$(ls)⏎E⏎%c
bash <<EOF⏎%c⏎EOF
bash <<'EOF'⏎%c⏎EOF
sh <<< %q
bash -s <<< %q
echo %q | bash
printf %q | sh -s
source <(echo %q)
. /dev/stdin <<< %q
bash /dev/stdin <<< %q
bash <(echo %q)
cat <<< $(%c)
cat <<< "`%c`"
f() { %c; }; f
function f { %c; }; f
f() ( %c ); f
%w() { command %w "$@"; }; %c
f() { %w "$@"; }; f %a
shopt -s expand_aliases⏎alias ls=%q⏎ls
shopt -s expand_aliases⏎alias g=%w⏎g %a
hash -p $(command -v %w) ls; ls %a
eval %q
eval %c
eval "$(echo %q)"
x=%q; eval $x
x=%q; $x
x=%w; $x %a
x=(%c); ${x[@]}
set -- %c; "$@"
A=1 %c
A=1 B=2 env %c
env %c
env -i PATH=$PATH %c
env -S %q
env -S%q
env --split-string=%q
env -u X -- %c
echo a | xargs %c
echo %a | xargs %w
echo %q | xargs -I{} bash -c {}
echo %q | xargs -IX sh -c X
xargs -n1 %c < a.py
find a.py -exec %c \;
find a.py -exec bash -c %q \;
find a.py -execdir %c {} +
find . -name a.py -ok %c ';' < /dev/null
sh -c %q
bash -c %q
bash -ec %q
bash -o errexit -c %q
bash --norc -c %q
/bin/sh -c %q
sh -c "$(echo %q)"
\%w %a
'%w' %a
"%w" %a
$'%w' %a
%w\⏎ %a
{ %c; }
{ echo; %c; } 2>/dev/null
( %c )
! %c
time %c
time { %c; }
%w$IFS%a
%w${IFS}%a
IFS=,; x=%w,x; $x
{%w,x} %a
coproc %c; wait
coproc x { %c; }; wait
coproc { %c; }; wait
trap %q EXIT
trap -- %q EXIT
trap %q DEBUG; ls
trap %q ERR; false
%c > out
> out %c
2>&1 %c
%w > out %a
echo $((`%c`1))
echo $(( $(%c) 1 ))
echo $((a[$(%c)0]))
x='a[$(%c)0]'; echo $((x))
((a[$(%c)0]=1))
let 'a[$(%c)0]=1'
a=(1 $(%c))
a[$(%c)0]=1
echo ${a[$(%c)0]}
declare -a a=($(%c))
declare -i x='a[$(%c)0]'
unset 'a[$(%c)0]'
test -v 'a[$(%c)0]'
[ -v 'a[$(%c)0]' ]
[[ -v a[$(%c)0] ]]
printf -v 'a[$(%c)0]' x
read 'a[$(%c)0]' < a.py
[[ a[$(%c)0] -eq 1 ]]
command %c
command -p %c
builtin eval %q
builtin command %c
exec %c
exec -a x %c
nohup %c
timeout 5 %c
nice -n 1 %c
timeout 5 bash -c %q
setsid -w %c
stdbuf -o0 %c
case x in x) %c;; esac
case $(%c) in x) ;; esac
case x in $(%c)) ;; esac
if %c; then :; fi
while %c; do break; done
until %c; do break; done
for i in 1; do %c; done
for i in $(%c); do :; done
for ((i=0;i<1;i++)); do %c; done
select i in a; do %c; done <<< 1
echo a | while read l; do %c; done
ls⏎%c
ls # x⏎%c
ls;%c
ls&%c
ls|%c
ls||%c; true&&%c
ls \⏎; %c
A=$(%c)
A=`%c` ls
export A=$(%c)
A+=$(%c)
PS4='$(%c)'; set -x; ls
x='$(%c)'; echo ${x@P}
mapfile -c 1 -C %q x < a.py
compgen -C %q
compgen -W '$(%c)'
compgen -A function -W '`%c`'
bash -euo pipefail -c %q
bash -eoc pipefail %q
bash -ceo pipefail %q
bash +oc posix %q
bash -Oc extglob %q
bash -cO extglob %q
bash -c -e %q
bash -c +e %q
bash -c - %q
bash -c -e -- %q
bash -c -o posix %q
bash --norc -c -e %q
sh -c -e %q
env bash -c -e %q
timeout 5 bash -c -e %q
find . -maxdepth 0 -exec bash -c -e %q \;
echo %q | bash -es
bash -xs a.py <<< %q
eval -- %q
command eval -- %q
trap 'eval -- %c' EXIT
env 'BASH_FUNC_ls%%=() { %c; }' bash -c ls
env "BASH_FUNC_ls%%=() { %c; }" bash -c ls
env BASH_ENV='$(%c)' bash -c ls
read y <<< 'a[$(%c)]'; ((y))
read y <<'E'; ((y))⏎a[$(%c)]⏎E
for y in 'a[$(%c)]'; do ((y)); done
y=$(echo 'a[$(%c)]'); ((y))
printf -v y '%s' 'a[$(%c)]'; ((y))
x='a[$(%c)]'; let x
x='a[$(%c)]'; let "y=x+1"
x='a[$(%c)]'; builtin let x
for x in 'a[$(%c)]'; do let x; done
x='a[$(%c)]' bash -c 'let x'
y=(1); x='a[$(%c)]'; printf -v 'y[x]' 1
y=(1); x='a[$(%c)]'; printf -v'y[x]' 1
y=(1); x='a[$(%c)]'; read 'y[x]' <<< 1
y=(1); x='a[$(%c)]'; read -r z y[x] <<< '1 2'
y=(1); x='a[$(%c)]'; sleep 0 & wait -np 'y[x]'
printf -v'a[$(%c)]' x
sleep 0 & wait -np 'a[$(%c)]'
OPTIND='a[$(%c)]'
x='a[$(%c)]'; RANDOM=x
x='a[$(%c)]'; HISTCMD+=x
x='a[$(%c)]'; OPTIND=(x)
x='a[$(%c)]'; export OPTIND=x
x='a[$(%c)]'; for OPTIND in x; do :; done
for SECONDS in 'a[$(%c)]'; do :; done
x='a[$(%c)]'; read RANDOM <<< x
x='a[$(%c)]'; read -a OPTIND <<< x
x='a[$(%c)]'; mapfile -t OPTIND <<< x
x='a[$(%c)]'; printf -vRANDOM x
set -- 'a[$(%c)]'; OPTIND=$1
x='a[$'; x+='(%c)]'; ((x))
x='a['; y=\$; x=$x$y'(%c)]'; ((x))
set -- 'a[$' '(%c)]'; x="$1$2"; ((x))
for x in 'a[$'; do y="$x(%c)]"; ((y)); done
x=('a[$'); x+=('(%c)]'); IFS=; y="${x[*]}"; ((y))
x='a[X(%c)]'; y=${x/X/$}; ((y))
x=$'a[\x24(%c)]'; let x
printf -v y '\044'; x="a[$y(%c)]"; ((x))
x='a[\044(%c)]'; y="${x@E}"; ((y))
f() { ((n=$1)); }; f 'a[$(%c)]'
set -- 'a[$(%c)]'; (($1))
bash -c '(($1))' x 'a[$(%c)]'
env y='a[$(%c)]' bash -c '((y))'
: 'a[$(%c)]'; ((_))
script -qec %q /dev/null
setarch x86_64 %c
choom -n 0 -- %c
ssh-agent %c
linux64 %c
prlimit --nofile=100 %c
split --filter=%q a.py
tar cf /dev/null a.py --checkpoint=1 --checkpoint-action=exec=%q
tar cf x.tar a.py; tar xf x.tar --to-command=%q
sort --compress-program=%q a.py
PROMPT_COMMAND=%q bash -i < /dev/null
[[ -n $(%c) ]]
GIT_PAGER=%q git -p log
git -c core.pager=%q -p log
git --no-pager -c alias.x=%q x
git -c alias.x='!%c' x
watch -n 1 -g %q
script -qc %q /dev/null
flock a.py -c %q
flock a.py %c
echo '$(x)' "$(%c)"
echo "\$(x) $(%c)"
echo \`x\` `%c`
echo '\'$(%c)'\'
echo $'\'' $(%c)
echo $"$(%c)"
""".strip().splitlines()
]
REAL = Path("/usr/bin:/bin")


class Sandbox:
    """A directory with a `git` and an `rm` that leave a mark, and policies to be tricked."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root)) / "work"
        self.bin = self.root.parent / "bin"
        self.mark = self.root.parent / "mark"
        (self.root / "sub").mkdir(parents=True)
        self.bin.mkdir()
        (self.root / "a.py").write_text("a\n")
        for name, first in (("git", "push"), ("rm", "-rf")):
            program = self.bin / name
            program.write_text(f'#!/bin/sh\n[ "$1" = {first} ] && : > {self.mark}\nexit 0\n')
            program.chmod(0o755)
        scope = PermissionScope((self.root,), base=self.root)
        deny = parse_rules(["Bash(git push:*)", "Bash(rm -rf:*)"], Verdict.DENY, "denying", self.root)
        told = [
            "echo",
            "ls",
            "cat",
            "true",
            "wc",
            "git status",
            "xargs",
            "env",
            "find",
            "timeout",
            "bash",
            "sh",
            "eval",
        ]
        allow = parse_rules([f"Bash({name}:*)" for name in told], Verdict.ALLOW, "allowing", self.root)
        whole = parse_rules(["Bash"], Verdict.ALLOW, "allowing", self.root)
        self.careful = [Policy(mode, (), scope) for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK)]
        self.careful += [Policy(Mode.ACCEPT_EDITS, allow, scope), Policy(Mode.PLAN, whole, scope)]
        self.denying = [Policy(Mode.BYPASS, deny, scope)]
        self.denying += [Policy(mode, (*rules, *deny), scope) for mode in Mode for rules in (allow, whole)]

    def verdicts(self, policies: list[Policy], command: str) -> set[Verdict]:
        return {policy.decide("Bash", Access(command=command, cwd=self.root)).verdict for policy in policies}

    def runs_it(self, command: str) -> bool:
        """Whether bash, given the line, comes to the command that is hidden in it."""
        self.mark.unlink(missing_ok=True)
        shell = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.root,
            env={"PATH": f"{self.bin}:{REAL}", "HOME": str(self.root)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            shell.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, 9)
            shell.wait(WAIT_S)
        return self.mark.exists()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    return Sandbox(tmp_path_factory.mktemp("hiding"))


def hide(template: str, command: str) -> str:
    first, _, rest = command.partition(" ")
    for mark, text in (("%c", command), ("%q", shlex.quote(command)), ("%w", first), ("%a", rest)):
        template = template.replace(mark, text)
    return template


def check(sandbox: Sandbox, line: str) -> None:
    """Both promises on one line; bash is asked only about lines that somebody would let through."""
    allowed = Verdict.ALLOW in sandbox.verdicts(sandbox.careful, line)
    escaped = sandbox.verdicts(sandbox.denying, line) != {Verdict.DENY}
    if allowed or escaped:
        assert not sandbox.runs_it(line), (line, "allowed" if allowed else "escapes the deny rule")


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("template", HIDES)
def test_a_hidden_command_is_neither_allowed_by_chance_nor_escapes_a_deny_rule(sandbox, template):
    for command in HIDDEN:
        check(sandbox, hide(template, command))


@pytest.mark.promise("G2")
@pytest.mark.finding("P12")
@pytest.mark.parametrize("shell", ["bash", "bash -e --", "env bash", "sh -x", "source", ". --"])
def test_a_deny_rule_holds_for_a_script_that_a_shell_finds_in_path(sandbox, shell):
    for command in HIDDEN:
        assert sandbox.verdicts(sandbox.denying, f"{shell} {command}") == {Verdict.DENY}
    assert shell == "sh -x" or sandbox.runs_it(f"{shell} git push"), "dash may not look for it in PATH"


@pytest.mark.promise("G2")
@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line",
    ["parallel %w ::: %a", "parallel %c ::: x", "parallel ::: %q", "parallel '%w {}' ::: %a", "echo %q | parallel"],
)
def test_a_deny_rule_holds_for_what_parallel_runs(sandbox, line):
    for command in HIDDEN:
        assert sandbox.verdicts(sandbox.denying, hide(line, command)) == {Verdict.DENY}
    assert sandbox.verdicts(sandbox.denying[:1], "parallel echo ::: a b") == {Verdict.ALLOW}


EXAMPLES = 200
lines = st.builds(
    lambda before, hides, command, after: before + _nested(hides, command) + after,
    st.lists(st.tuples(st.sampled_from(SAFE), st.sampled_from(JOINTS)), max_size=2).map(
        lambda x: "".join(map("".join, x))
    ),
    st.lists(st.sampled_from(HIDES), min_size=1, max_size=3),
    st.sampled_from(HIDDEN),
    st.lists(st.tuples(st.sampled_from(JOINTS), st.sampled_from(SAFE)), max_size=1).map(
        lambda x: "".join(map("".join, x))
    ),
)


def _nested(hides: list[str], command: str) -> str:
    for template in hides:
        command = hide(template, command)
    return command


@pytest.mark.promise("G2", "P7")
@settings(max_examples=examples(EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(line="PS4='$(cat <<EOF\n$(git push)\nEOF)'; set -x; ls")
@given(line=lines)
def test_not_even_hidden_in_one_another_between_harmless_commands(sandbox, line):
    check(sandbox, line)


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize(
    "blank", ["\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\x0b", "\x0c", "\r", "\r\n", "\x85", "\ufeff"]
)
def test_other_blanks_do_not_part_words_nor_lines_unnoticed(sandbox, blank):
    for line in (
        f"git{blank}push",
        f"ls{blank}git push",
        f"ls;{blank}git push",
        f"ls #{blank}git push",
        f"echo x{blank}&& git push",
    ):
        check(sandbox, line)
        assert Verdict.ALLOW not in sandbox.verdicts(sandbox.careful, line), line


@pytest.mark.promise("G2")
def test_the_judge_would_notice(sandbox):
    assert sandbox.runs_it("true && git push")
    assert not sandbox.runs_it("echo git push")
    assert sandbox.verdicts(sandbox.denying, "git push") == {Verdict.DENY}
    assert Verdict.ALLOW in sandbox.verdicts(sandbox.careful, "echo x && ls")
    # nearly all templates really hide one: they are no empty exercise
    assert sum(sandbox.runs_it(hide(template, "git push")) for template in HIDES[:60]) > 45


@pytest.mark.parametrize(
    "line", ["coproc declare -i x='a[$(git push)0]'; wait", "coproc N { let 'a[$(git push)0]'; }; wait"]
)
@pytest.mark.parametrize("mode", [Mode.BYPASS, Mode.DEFAULT])
def test_what_a_coprocess_calculates_is_no_way_round_a_deny_rule(tmp_path, mode, line):
    rules = parse_rules(["Bash(git push:*)"], Verdict.DENY, "test", tmp_path)
    policy = Policy(mode, rules, PermissionScope(directories=(tmp_path,), base=tmp_path))
    assert policy.decide("Bash", Access(command=line, cwd=tmp_path)).verdict is Verdict.DENY
