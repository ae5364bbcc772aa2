"""Lines that shells read in another way than they look: they are not read, or read as the shell does."""

import pytest

from teamwright.permissions.verdict import Mode, Verdict
from teamwright.shell_lines import line_cursor
from teamwright.shell_lines.parse import parse_cached, parse_command

READ_OTHERWISE = [
    line.replace("⏎", "\n").replace("⇥", "\t")
    for line in r"""
ls \ #; touch X
echo \⇥# $(touch X)
ls <\ ⏎touch X
ls <<<\ ⏎touch X
x=\ ⏎touch X
ls \
ls a\⏎b
ls;\⏎; touch X
cat <<E \⏎x⏎E⏎
ls \⏎# comment
echo hi >&'$(touch X)'
cat <&"$x"
echo $'\'; touch X; #'
echo "`echo "a"`"
echo `echo \`touch X\``
{git,ls} push
echo {fd}>out
echo {fd} >out
ls &>out touch X
ls 12>out
echo $[1+1]
echo $((1) )
echo $((echo a); (echo b))
echo a<(ls)
echo <(ls)b
echo @(a|b)
ls $x(a)
a[0 ; touch X]=1
a["0"]=1
a=(['$(touch X)']=1)
a+=([x]=1)
export a=(b [$x]=1)
$(cat <<E⏎x⏎E⏎⏎echo a;echo b)
$(ls # comment⏎)
cat <<E⏎x \⏎E⏎E
cat <<E x"⏎"y⏎z⏎E
cat <<$x⏎x⏎$x
cat <<E⏎x
time { touch X; }
[[ a < b(c) ]]
[[ a =~ a|b ]]
case a in @(a|b)) ls;; esac
echo $~x
echo $=x
echo "$\⏎(touch X)"
echo "a$\⏎\⏎(touch X)"
echo $"$\⏎(touch X)"
[[ "$\⏎(touch X)" ]]
cat <<< "$\⏎(touch X)"
cat <<E⏎$\⏎(touch X)⏎E
x="$\⏎(touch X)"; ls
echo "$\⏎GH_TOKEN"
x=1; echo "$x\⏎y"
echo "${x:-$\⏎(touch X)}"
""".strip().splitlines()
]


@pytest.mark.finding("P1")
@pytest.mark.promise("P7")
@pytest.mark.parametrize("line", READ_OTHERWISE)
def test_a_line_that_shells_read_otherwise_is_not_judged_by_its_parts(scratch, line):
    for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS):
        assert scratch.run(line, mode, allow=["Bash(ls:*)", "Bash(echo:*)", "Bash(cat:*)"]).verdict is Verdict.ASK
    for mode in (Mode.PLAN, Mode.DONT_ASK):
        assert scratch.run(line, mode).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS, deny=["Bash(unheard:*)"]).verdict is Verdict.DENY


@pytest.mark.finding("P1")
@pytest.mark.parametrize(
    "character", ["\r", "\v", "\f", "\0", "\x01", "\x1b", "\x7f", "\x85", "\udcff", "\u00a0", "\u3000"]
)
def test_a_character_that_some_shells_take_for_a_sign_is_not_read(tmp_path, character):
    assert not parse_command(f"ls {character} touch X", tmp_path).is_valid


READ_WELL = r"""
git commit -m "$(cat <<'EOF'⏎it's (done)⏎EOF⏎)"
ls a.py # comment
ls; # comment
# only a comment
if [[ $x =~ ^(a|b)+$ ]]; then ls; fi
case "$1" in a|b) ls;; (c) pwd;; *) exit 1;; esac
while read -r f; do wc -l "$f"; done < list
for ((i = 0; i < 3; i++)); do ls; done
f() { local x=1; ls "$x"; }; f
function g { ls; }
echo "${x:-$(ls)}" ${y#*/} $(( (1 + 2) * 3 ))
cat <<-E > out && ls⏎⇥$x "quoted" it's⏎⇥E⏎pwd
diff <(ls a) <(ls b)
ls 2>&1 | tee out >/dev/null
! ls && time pwd
a=(1 "2 3" $(ls)) b+=x ls
find . -name '*.py' -exec wc -l {} \; -o -name '*.c'
echo a\;b a\&b "a\"b" 'a\ b' $'a' "$(ls "a b")"
ls \⏎  -l \⏎  a.py
(cd sub && ls) & wait
sed -e 's/a\ b/c/' -e "s/\(x\)/\1/" a.py
git show HEAD^ HEAD~1 stash@{0}
printf '%s\n' 修复 "问题　空"
""".strip().splitlines()


@pytest.mark.finding("P1")
@pytest.mark.parametrize("line", READ_WELL)
def test_a_line_that_shells_read_alike_is_read(tmp_path, line):
    assert parse_command(line.replace("⏎", "\n").replace("⇥", "\t"), tmp_path).is_valid


@pytest.mark.finding("P1")
@pytest.mark.parametrize(
    "line",
    ["$(cat <<'E'\nit's\nE\n)", "$(case a in a) ls;; esac)", "ls voil\u00e0"],
)
def test_where_bash_may_be_old_its_own_reading_counts(tmp_path, monkeypatch, line):
    assert parse_command(f"echo {line}", tmp_path).is_valid
    monkeypatch.setattr(line_cursor, "OLD_BASH", True)
    parse_cached.cache_clear()
    assert not parse_command(f"echo {line}", tmp_path).is_valid
    parse_cached.cache_clear()


@pytest.mark.finding("P1")
def test_hostile_nesting_is_read_in_time(tmp_path):
    for line in ["{a," * 9_000, "$(" * 9_000, "((" * 9_000, "ls && " * 9_000 + "ls", "{1..200} " * 6_000, "(" * 9_000]:
        assert parse_command(line, tmp_path)
    loops = "for i in {1..200}; do " * 25 + "ls $i" + "; done" * 25
    assert len(parse_command(loops, tmp_path).commands) < 5_000


@pytest.mark.finding("P6")
@pytest.mark.parametrize(
    "line", ["export", "export -p", "readonly", "declare", "declare -p", "typeset", "set", "local"]
)
def test_a_declaration_without_a_name_prints_secrets_and_asks(scratch, line):
    for whole in (line, f"{line} | grep -i token", f"x=$({line}); echo done", f"{line} > /dev/null"):
        assert scratch.run(whole).verdict is Verdict.ASK
        assert scratch.run(whole, Mode.DONT_ASK).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS, deny=[f"Bash({line})"]).verdict is Verdict.DENY


@pytest.mark.finding("P6")
def test_a_declaration_of_a_plain_variable_stays_allowed(scratch):
    assert scratch.run('x=1; readonly x; echo "$x"').verdict is Verdict.ALLOW


SET_TOO_LATE = [
    line.replace("⏎", "\n")
    for line in """
echo "$token"; token=x
token="$token"; echo "$token"
token+=x; echo "$token"
false && token=x; echo "$token"
true || token=x && echo "$token"
if false; then token=x; fi; echo "$token"
if true; then :; elif token=x; then :; fi; echo "$token"
case a in b) token=x;; esac; echo "$token"
while false; do token=x; done; echo "$token"
for token in; do :; done; echo "$token"
(token=x); echo "$token"
token=x & echo "$token"
token=x | true; echo "$token"
x=$(token=x); echo "$token"
{ token=x; } < nothing; echo "$token"
token=x < nothing; echo "$token"
local token=x; echo "$token"
export token=x < nothing; echo "$token"
readonly token; unset token; echo "$token"
readonly token; token=x⏎echo "$token"
: $((1/0)); token=x⏎echo "$token"
cat <<< "$token"; token=x
""".strip().splitlines()
]


@pytest.mark.finding("P6")
@pytest.mark.parametrize("line", SET_TOO_LATE)
def test_a_variable_that_may_still_have_the_value_of_the_environment_asks(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK
    assert scratch.run(line, Mode.PLAN).verdict is not Verdict.ALLOW


@pytest.mark.finding("P6", "P13")
@pytest.mark.parametrize(
    "line",
    [
        'x=$(cat a.py); echo "$x"',
        'for f in *.py; do n=$(wc -l < "$f"); echo "$f: $n"; done',
        'x=1 && y=2 && echo "$x $y"',
        'if x=$(cat a.py); then echo "$x"; fi',
        'export LC_ALL=C; x=1; (echo "$x")',
        'x=$((2 + 3)); echo "$x"',
    ],
)
def test_a_variable_that_was_certainly_set_is_only_printed(scratch, line):
    assert scratch.run(line).verdict is Verdict.ALLOW


@pytest.mark.finding("P9")
@pytest.mark.parametrize("line", ["echo $(cat a.py)", "x=$(cat a.py); echo $x", "ls | while read f; do echo $f; done"])
def test_a_value_that_may_become_a_pattern_asks(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK


@pytest.mark.finding("P9")
@pytest.mark.parametrize(
    "line",
    ['echo "$(cat a.py)"', 'x=$(cat a.py); echo "$x"', "echo $? $PATH $#"],
)
def test_a_value_that_stays_one_word_is_only_printed(scratch, line):
    assert scratch.run(line).verdict is Verdict.ALLOW
