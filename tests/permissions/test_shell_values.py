"""Values that the parser knows: words are listed as the command gets them, one command for each value of a loop."""

import os

import pytest

from teamwright.permissions.verdict import Mode, Verdict
from teamwright.shell_lines.parse import parse_cached, parse_command


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("CDPATH", raising=False)
    for name in ("a.py", "b.py", "sub/c.py", "z z.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    parse_cached.cache_clear()
    yield tmp_path
    parse_cached.cache_clear()


def listed(line, place):
    parsed = parse_command(line, place)
    assert parsed.is_valid
    commands = [command for command in parsed.commands if command.name != ":"]  # what a loop lists
    return [" ".join("…" if word is None else word for word in command.words) for command in commands]


@pytest.mark.finding("P12", "P13")
@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ('cat "$PWD/.env"', ["cat {place}/.env"]),
        ("cat ${PWD}/.env", ["cat {place}/.env"]),
        ('cat "$HOME/x" ${HOME}/y', ["cat /home/me/x /home/me/y"]),
        ("cat .{env,}", ["cat .env ."]),
        ("cat {a,b}.py x{1..3}", ["cat a.py b.py x1 x2 x3"]),
        ("cat {a,{b,c}}", ["cat a b c"]),
        ("cat {} {a} a{b", ["cat {} {a} a{b"]),
        (r"cat $'\x74'oenv $'\56env' x$'\t'y", ["cat toenv .env x\ty"]),
        (r"x=$'\x2eenv'; cat $x", ["cat .env"]),
        ("dd if=~/.ssh/id", ["dd if=/home/me/.ssh/id"]),
        ("x=.env; cat $x", ["cat .env"]),
        ('x=.env; y=$x.bak; cat $y "$x"', ["cat .env.bak .env"]),
        ("x=~/k; cat $x", ["cat /home/me/k"]),
        ('for f in *.py; do wc -l "$f"; done', ["wc -l a.py", "wc -l b.py"]),
        ("for f in sub/*.py a.py; do cat $f; done", ["cat sub/c.py", "cat a.py"]),
        ("for f in *.none; do cat $f; done", ["cat …"]),
        ('for f in *.none; do cat "$f"; done', ["cat *.none"]),
        ("for f in *.txt; do cat $f; done", ["cat …"]),
        ('for f in *.txt; do cat "$f"; done', ["cat z z.txt"]),
        ("for f in ~/a; do cat $f; done", ["cat /home/me/a"]),
        ("for d in sub; do for f in $d/*.py; do cat $f; done; done", ["cat sub/c.py"]),
        ("cd sub && for f in *; do cat $f; done", ["cd sub", "cat c.py"]),
        ("cd sub && cat $PWD/c.py", ["cd sub", "cat {place}/sub/c.py"]),
    ],
)
def test_a_known_value_is_filled_in(place, line, commands):
    assert listed(line, place) == [command.replace("{place}", str(place)) for command in commands]


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line",
    [
        "cat $x",
        "x=a; [ -f q ] && x=b; cat $x",
        "if ls; then x=a; fi; cat $x",
        "x=a; while ls; do cat $x; x=b; done",
        "x=a | ls; ls | x=b; cat $x",
        "x=a; read x; cat $x",
        "x=a; eval y=1; cat $x",
        "x=a; f() { x=b; }; f; cat $x",
        "trap 'x=b' DEBUG; x=a; cat $x",
        "declare -u x; x=a; cat $x",
        "x=a; printf -v x b; cat $x",
        "x=a; : ${y:=1}; cat $x",
        "x=a; (( x = 1 )); cat $x",
        "x=a; unset x; cat $x",
        "x+=a; cat $x",
        "(x=a); cat $x",
        "x=a & cat $x",
        "x='a b'; cat $x",
        "x='*'; cat $x",
        "x=; cat $x",
        "IFS=,; x=a,b; cat $x",
        "for x in a b; do ls; done; cat $x",
        "for x in a $y; do cat $x; done",
        "for x in $(ls); do cat $x; done",
        "ls | while read x; do cat $x; done",
        "HOME=/x; cat ~/y",
        "HOME=/x; cat $HOME/y",
        "read HOME; cat ~/y",
        "cd q; cat $PWD/x",
        "PWD=/x; cat $PWD/x",
        "shopt -s dotglob; cat *",
        "GLOBIGNORE=x; cat *",
        "cat {a,b",
        "cat {1..300}",
        "cat {01..03}",
        "cat {a..c}",
        "cat ''~/x",
        "cat ~root/x",
        "cat ~+/x",
        r"cat $'\xe9'",
        r"cat $'\0x'",
        r"cat $'\cA'",
        r"cat $'\x{41}'",
        r"cat $'\u41'",
        r"cat $'\e[0m'",
    ],
)
def test_a_value_that_is_not_certain_stays_unknown(place, line):
    last = [command for command in parse_command(line, place).commands if command.name == "cat"][-1]
    assert None in last.words[1:] or None in last.directories


@pytest.mark.finding("P10")
@pytest.mark.parametrize("pattern", [".*", ".?", "..*", ".*/x", "sub/.*", ".[.]", ".?/.env"])
def test_a_pattern_that_may_be_the_directory_above_is_unknown(scratch, place, pattern):
    [command] = parse_command(f"cat {pattern}", place).commands
    assert command.words[1] is None
    assert scratch.run(f"cat {pattern}").verdict is Verdict.ASK


@pytest.mark.finding("P10")
def test_a_pattern_of_hidden_names_is_still_one(place):
    [command] = parse_command("cat .*rc .e*", place).commands
    assert command.globs == {1, 2}


@pytest.mark.finding("P12")
def test_a_loop_changes_no_directory_unseen(scratch):
    (scratch.project / "sub" / ".env").write_text("")
    line = "for x in a b; do cat .env; cd sub; done"
    assert None in parse_command(line, scratch.project).commands[-2].directories


@pytest.mark.finding("P13")
@pytest.mark.parametrize(
    "line",
    [
        'for f in src/*.py; do wc -l "$f"; done',
        'for f in src/*.py; do echo "$f"; head -3 "$f"; done',
        "for d in src sub; do ls $d; done",
        'cat "$PWD/a.py"',
        "f=a.py; wc -l $f",
        "cat {a,b}.py",
    ],
)
def test_lines_that_only_read_what_is_known_run(scratch, line):
    assert scratch.run(line).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line",
    [
        "for f in ../outside/*; do cat $f; done",
        "for f in *; do cat $f/secret; done",
        "f=../outside/secret; cat $f",
        "cat {a.py,../outside/secret}",
        'cat "$PWD/../outside/secret"',
        'cat "$HOME/.netrc"',
        "for f in a.py; do touch $f; done",
        "f=../outside/secret; { f=a.py; } < nothing; cat $f",
        "f=../outside/secret\n: $((1/0)); f=a.py\ncat $f",
        "f=../outside/secret\n: $((08)); f=a.py\ncat $f",
    ],
)
def test_lines_that_leave_the_directories_by_a_known_value_ask(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line", ['cat "$PWD/.env"', "cat .{env,}", "x=.env; cat $x", "for f in .e*v; do cat $f; done", "cat .en[v]"]
)
def test_a_denied_file_stays_denied_behind_a_known_value(own_scratch, line):
    (own_scratch.project / ".env").write_text("")
    assert own_scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY


@pytest.mark.finding("P12")
def test_a_directory_is_searched_where_the_shell_searches_it(place, monkeypatch):
    monkeypatch.setenv("CDPATH", "/etc")
    parse_cached.cache_clear()
    assert None in parse_command("cd sub && cat x", place).commands[-1].directories
    assert None not in parse_command("cd ./sub && cat x", place).commands[-1].directories
    monkeypatch.delenv("CDPATH")
    os.symlink("/usr/bin", place / "out")
    parse_cached.cache_clear()
    assert None in parse_command("cd out/.. && cat x", place).commands[-1].directories


def test_a_value_that_doubles_is_followed_to_a_limit_only(tmp_path):
    line = "x=a; " + "x=$x$x; " * 40 + 'echo "$x"'
    assert parse_command(line, tmp_path).commands[-1].words == ("echo", None)
    assert parse_command('x=a; x=$x$x; echo "$x"', tmp_path).commands[-1].words == ("echo", "aa")


def test_a_line_with_too_many_commands_is_not_judged_by_its_parts(tmp_path):
    assert parse_command("ls;" * 1_500, tmp_path).is_valid
    assert not parse_command("ls;" * 3_000, tmp_path).is_valid


CALCULATES_WITH_INPUT = """
read y < a.py; ((y))
read y < a.py; let y
read y < a.py; [[ -v $y ]]
echo $(( $(cat a.py) ))
[[ $(cat a.py) -gt 0 ]]
n=$(cat a.py); if (( n > 1 )); then ls; fi
[ -v $(cat a.py) ]
declare -i y; y=$(cat a.py)
echo ${PWD:$(cat a.py)}
x=$(cat a.py); echo ${!x}
bash -c 'y=$(cat a.py); ((y))'
timeout 5 bash -c 'mapfile y < a.py; for ((y; y < 3; y++)); do ls; done'
cat a.py | xargs bash -c '(($1))' x
select y in 1 2; do ((y)); done < a.py
read OPTIND < a.py
OPTIND=$(cat a.py)
read y < a.py; export OPTIND=y
read x < a.py; y=(1); read 'y[x]' <<< 1
read x < a.py; y=(1); printf -v 'y[x]' 1
read x < a.py; y=(1); unset 'y[x]'
""".strip().splitlines()
TAKES_INPUT_ONLY = """
mapfile -t files < a.py; for f in "${files[@]}"; do echo "${f%.py} ${f/a/b} ${f:0:3}"; done
for ((i=0; i<3; i++)); do echo $i; done
n=$(wc -l < a.py); [ "$n" -gt 3 ] && echo many
[[ $(cat a.py) == text ]]
while read -r f; do echo "$f"; done < a.py
read -r -p 'Continue [y/N] ' f < a.py; echo "$f"
OPTIND=1; n=$(wc -l < a.py)
i=1; let i=i+1; awk '{print $1}' a.py
mapfile -t lines < a.py; read 'lines[0]' < a.py
""".strip().splitlines()


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", CALCULATES_WITH_INPUT)
def test_a_line_that_calculates_with_a_text_from_outside_may_run_a_forbidden_command(scratch, line):
    assert scratch.run(line, Mode.BYPASS, deny=["Bash(git push:*)"]).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS).verdict is Verdict.ALLOW
    assert scratch.run(line).verdict is Verdict.ASK


@pytest.mark.parametrize("line", TAKES_INPUT_ONLY)
def test_a_line_that_calculates_with_its_own_values_alone_hides_no_command(scratch, line):
    assert scratch.run(line, Mode.BYPASS, deny=["Bash(git push:*)"]).verdict is Verdict.ALLOW
