"""Programs that only read: the options, scripts and operands with which they are allowed, and those that ask."""

import shlex
from pathlib import Path

import pytest

from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName
from teamwright.shell_lines.programs.awk import only_computes
from teamwright.shell_lines.programs.file_reads import find_files_read
from teamwright.shell_lines.programs.options import PROGRAMS, parse_arguments, parse_grammar, program_grammar
from teamwright.shell_lines.programs.sed import only_prints

SED_RUNS = r"""
sed -- '1e touch x' -e p a.py
sed -e p -e'1e touch x' a.py
sed -ne'1e touch x' a.py
sed -n -e 'w out' a.py
sed -e'w out' a.py
sed -e'r link/secret' a.py
sed -e'R link/secret' a.py
sed --expression='1e touch x' a.py
sed --expression '1e touch x' a.py
sed --expr='1e touch x' a.py
sed '1e touch x' -e p
sed '1e touch x' --expression=p
sed -e 's/a/b\' -e 'w out' a.py
sed p -i a.py
sed -ni p a.py
sed -En -i.bak p a.py
sed -f script a.py
sed -fscript a.py
sed --file=script a.py
sed -l 5 p a.py
sed *.py
""".strip().splitlines()

ELSEWHERE_READ = r"""
column -t ../outside/secret
column -s, -t ../outside/secret
grep . --color ../outside/secret
grep -rn text --color ..
grep -rsah text --include=environ --color ..
grep -d recurse text ..
grep --directories=recurse text ..
od -c -w ../outside/secret
ls -w ../outside
ls -I ../outside
du -t ../outside
gawk 'BEGIN{SYMTAB["ARG" "V"][1]="../outside/secret"} {print}'
gawk 'BEGIN{print SYMTAB["ENV" "IRON"]["HOME"]}'
awk '{print}' FS=, a.py ../outside/secret
awk -f ../outside/secret a.py
awk --
date -r ../outside/secret
date -f ../outside/secret
sort --files0-from=../outside/secret
wc --files0-from=a.py
diff --from-file=../outside/secret a.py
file -f ../outside/secret
file -m ../outside/secret a.py
realpath --relative-to=../outside a.py
strings @../outside/secret
jq -n -f ../outside/secret
jq --slurpfile x ../outside/secret . a.py
jq --rawfile x ../outside/secret . a.py
jq -L .. . a.py
jq '$ENV' a.py
jq '$ ENV' a.py
jq 'import "x" as $x; .' a.py
cat a.py ../outside/secret -n
cat a.py -n ../outside/secret
grep text a.py -e ../outside/secret
head -n 5 -- ../outside/secret
tac -s x ../outside/secret
cut -d x -f 1 ../outside/secret
xxd -l 16 ../outside/secret
zcat ../outside/secret.gz
tar tf ../outside/secret
unzip -l ../outside/secret
git name-rev link/s*
git rev-parse link/s*
git log link/s*
""".strip().splitlines()

NOT_EXPLAINED = r"""
ls --colo=always
grep --recur text
cat --unheard-of a.py
head -n
xxd -r a.py
xxd a.py out
xxd -pl 5 a.py
xxd a.py -l5
uniq a.py -c
base64 a.py out
tail -f a.py
sort -T . a.py
sort -k1 -o out a.py
tree -R -H . -L 1
tree --fromfile a.py
tree -Po a.py out
tree -Io a.py out
tree -Lo 2 out
tree -Il x .
rg --engine -Lr text .
rg -e -Lr text .
hostname evil
hostname -f
hostname -i
hostname -F a.py
date 010100002030
tar xf x.tar
tar tf host:x.tar
tar tf x.tar --checkpoint-action=exec=x
tar -t -f x.tar -I ./x
tar tIf ./x x.tar
unzip x.zip
unzip -p x.zip
less a.py
printenv
printenv API_KEY
printf 'abc%n' PATH
printf '%5.2ln' PATH
printf -v PATH x
yarn --version
node --version x
npm --version --prefix x
free -s 1
grep -d x text a.py
grep -R text .
grep -S text .
rg -L text
rg -z text
rg --pre-glob x text
diff -r src sub
diff src sub
diff -l a.py b.py
""".strip().splitlines()

READ_UNASKED = r"""
sed -n -e '1p' -e '2p' a.py
sed -ne '1,5p' a.py
sed --expression='s/a/b/' a.py
sed -E 's/(a|b)+/x/g; /^$/d' a.py
sed '/x/,/y/{s/a/b/;p;}' a.py
sed '$!d' a.py
sed p -- a.py
awk '$3 > 5' a.py
awk -F: '$1 ~ /^a|b$/ {print $2}' a.py
awk '{a[$1]++} END {for (k in a) print k, a[k]}' a.py
awk -v n=3 'NR == n' a.py
awk 'BEGIN { printf "%d\n", 7 / 2 }'
jq --arg a b '.x' a.py
jq -r '.scripts | keys[]' a.py
jq . a.py b.py
head -20 a.py
head -n20 a.py
tail -n +3 a.py
grep -5 text a.py
grep text a.py --color=always
grep -rn text . --include '*.py'
ls -la --color=auto
diff -u a.py b.py
diff -U 5 a.py b.py
column -t -s, a.py
od -A x -t x1z a.py
xxd -l 16 a.py
hexdump -C a.py
strings -n 8 a.py
stat -c %s a.py
sort -t, -k2 -n a.py
tree -L 2 -I node_modules
tree -aL 2
find -O3 . -name x -newer a.py
find . -mtime -7 -size +10k
find . \( -name x -o -name y \) -not -path './z/*' -print0
date -u +%F
date -d yesterday +%F
date -r a.py
hostname
uptime
printenv PATH HOME
node --version
grep --help
zcat a.gz
tar tzf x.tar.gz
unzip -l x.zip
printf '%s\n' a.py
printf -- '-x\n'
""".strip().splitlines()


@pytest.mark.finding("P2")
@pytest.mark.parametrize("line", SED_RUNS)
def test_a_sed_script_is_checked_wherever_it_is_written(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK
    assert scratch.run(line, Mode.PLAN).verdict is Verdict.DENY
    assert scratch.run(line, Mode.DONT_ASK).verdict is Verdict.DENY


@pytest.mark.finding("P3")
@pytest.mark.parametrize("line", ELSEWHERE_READ)
def test_no_option_hides_a_file_that_is_read(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK


@pytest.mark.finding("P3")
@pytest.mark.parametrize("line", NOT_EXPLAINED)
def test_an_argument_that_the_tables_do_not_explain_asks(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK


@pytest.mark.finding("P13")
@pytest.mark.parametrize("line", READ_UNASKED)
def test_a_program_reads_files_of_the_directories_unasked(scratch, line):
    decision = scratch.run(line)
    assert decision.verdict is Verdict.ALLOW, decision.reason


@pytest.mark.finding("P7")
@pytest.mark.parametrize(
    "line",
    [
        *("grep -d recurse x .", "grep --directories=recurse x src", "grep -drecurse x"),
        *("grep x -r", "grep x -r --include=.env", "rg x", "rg x --glob=.env", "rg -g .env x", "rg x --hidden"),
    ],
)
def test_each_way_to_search_a_directory_heeds_deny_rules(scratch, line):
    assert scratch.run(line).verdict is Verdict.ALLOW
    assert scratch.run(line, deny=["Read(.env)"]).verdict is Verdict.ASK


@pytest.mark.finding("P3")
def test_a_version_that_a_file_of_the_project_chooses_asks(own_scratch):
    def decide(line: str) -> Verdict:
        access = Access(command=line, cwd=own_scratch.project, sandbox=frozenset({PolicyName.READ}))
        return own_scratch.policy().decide("Bash", access).verdict

    chosen = (
        ("rust-toolchain.toml", "cargo --version"),
        ("go.mod", "go version"),
        (".tool-versions", "node --version"),
        ("mise.local.toml", "node --version"),
        (".mise.ci.toml", "node --version"),
        ("mise/config.local.toml", "node --version"),
        (".config/mise/conf.d/a.toml", "node --version"),
    )
    for name, line in chosen:
        assert decide(line) is Verdict.ALLOW
        file = own_scratch.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        assert decide(line) is Verdict.ASK
        assert decide(f"cd src && {line}") is Verdict.ASK
        file.unlink()
        for place in file.parents[: len(Path(name).parts) - 1]:
            place.rmdir()


@pytest.mark.finding("P3")
def test_each_name_that_a_pattern_matches_is_judged(own_scratch):
    assert own_scratch.run("grep *.py").verdict is Verdict.ALLOW
    (own_scratch.project / "B.py").symlink_to(own_scratch.outside / "secret")
    assert own_scratch.run("grep *.py").verdict is Verdict.ASK
    (own_scratch.project / "B.py").unlink()
    (own_scratch.project / "-n.py").write_text("")
    assert own_scratch.run("cat *.py").verdict is Verdict.ASK


@pytest.mark.finding("P3")
def test_a_file_that_is_called_like_the_standard_input_is_judged(own_scratch):
    lines = ("rev -", "column -t -", "hexdump -C -", "date -r -", "cat - a.py")
    for line in lines:
        assert own_scratch.run(line).verdict is Verdict.ALLOW, line
    (own_scratch.project / "-").symlink_to(own_scratch.outside / "secret")
    for line in lines:
        assert own_scratch.run(line).verdict is Verdict.ASK, line


@pytest.mark.finding("P3")
def test_a_question_mark_matches_a_character_or_a_byte(own_scratch):
    assert own_scratch.run("cat s?c/*.py").verdict is Verdict.ALLOW
    (own_scratch.project / "\N{LATIN SMALL LETTER E WITH ACUTE}.txt").symlink_to(own_scratch.outside / "secret")
    for line in ("cat ??.txt", "cat ?.txt", "echo ??.txt"):
        assert own_scratch.run(line).verdict is Verdict.ASK, line


SCRIPTS = {
    "s/[/]/x/;w out/p": False,  # seds disagree about a delimiter in brackets
    "/[a[:]/p;s/:]/w out/p": False,
    "y/[/]/;w out;y/a/b/": False,
    r"s/[^\/]*$//": True,
    "s|a|b|;s#x#y#g": True,
    ":a;N;$!ba;s/\\n/ /g": True,
    "bx;w out": False,
    "b# w out": False,  # to some, the sign is a label
    "bx# w out": False,
    ":x # w out": False,
    "a\\\ntext": False,
    "p # w out": True,
    "p\nw out": False,
    "1{p;w out\n}": False,
    "s/a/b/gw out": False,
    "s/a/b/e": False,
    "s/[]/]/;#/w out": False,  # only to some is the first `]` the end of the brackets
    "s/[^]/]/;#/w out": False,
    "s/[]/a]/x/": False,
    "s/[]a]/x/": True,
    "s/é/e/": True,
    "s|é|w out|": False,  # in some encodings the delimiter belongs to the letter
}


@pytest.mark.finding("P2")
@pytest.mark.parametrize(("script", "prints"), SCRIPTS.items())
def test_a_sed_script_only_prints_where_every_sed_agrees(script, prints):
    assert only_prints(script) is prints


AWK_PROGRAMS = {
    "{print ($1 > 5)}": True,
    "$1 > 5 && /a|b/": True,
    "NR > 1 {print; next} # first line": True,
    '{print > "out"}': False,
    '{print $1, ($2) > "out"}': False,
    '{printf("%s", $1) > "out"}': False,
    '{print "x" | "sh"}': False,
    '{x = 1 /2 " /; print 1 | "sh"} # "/': False,  # no division, where an awk sees a regular expression
    '{if (1) /2 " /; print 1 | "sh" # "/}': False,
    '(a\n/ b "/ | "sh")': False,
    'BEGIN {while (("ls" | getline x) > 0) print x}': False,
    '@load "x"': False,
    "{@f()}": False,
    "function f(x,  y) {y = x; return y}\n{print f($1)}": True,
    "function f(x) {return x / 2 + f (1)}": True,
    "{print f(1)}": False,  # no function of the program, so perhaps one of an awk
    "function length(x) {return x}": False,
    "{function f(x) {return x}}": False,
    'function f(x) {print x > "out"}': False,
    'function f(x) {return x}\n{f(1) /2 " /; print 1 | "sh"} # "/': False,
    'BEGIN {asort(a, b, "sys" "tem")}': False,
    'BEGIN {print PROCINFO["version"]}': False,
    '/[/]/{print | "sh"} #]/': False,
    'BEGIN {x = !/[]/ "]/; print 1 > " m " # "\n}': False,
    'BEGIN {x = !/[^]/ "]/; print 1 > " m " # "\n}': False,
    "/[]a]/": True,
    'BEGIN {for (print 1 > "out"; 0;) x}': False,
    'BEGIN {for (; i < 1; print i++ > "out") x}': False,
    'BEGIN {print a ? b :\n c > "out"}': False,
    'BEGIN {print a ?\n b : c > "out"}': False,
    'BEGIN {print 1 +\n 2 > "out"}': False,
    "BEGIN {for (i = 0; i < 3; i++)\n print i,\n 2}": True,
}


@pytest.mark.finding("P3")
@pytest.mark.parametrize(("program", "computes"), AWK_PROGRAMS.items())
def test_an_awk_program_only_computes_where_every_awk_agrees(program, computes):
    assert only_computes(program) is computes


def test_every_grammar_of_the_table_can_be_parsed():
    assert all(program_grammar(name) is not None for name in PROGRAMS)
    assert program_grammar("rm") is None


def test_a_grammar_that_is_written_wrongly_is_refused():
    for wrong in ("", "FILES x", "FILES -a -a", "files -a"):
        with pytest.raises((ValueError, IndexError)):
            parse_grammar(wrong)


GRAMMAR = parse_grammar("FILES -NUM -q -n= -w[=] -r=FILE -o=? --color[=] --lines= --context:= --arg=2 -c=N")
PARSED = [
    (["-qn5", "a"], [("-q", ""), ("-n", "5")], ["a"], []),
    (["-q", "-n", "-5", "a"], [("-q", ""), ("-n", "-5")], ["a"], []),
    (["-w", "a"], [("-w", "")], ["a"], []),
    (["-w5", "a"], [("-w", "5")], ["a"], []),
    (["-20", "a"], [("-NUM", "20")], ["a"], []),
    (["--color", "a"], [("--color", "")], ["a"], []),
    (["--color=x", "--lines", "3", "a"], [("--color", "x"), ("--lines", "3")], ["a"], []),
    (["--arg", "x", "y", "a"], [("--arg", "y")], ["a"], []),
    (["-r", "b", "-o", "c", "a"], [("-r", "b"), ("-o", "c")], ["a"], ["b", "c"]),
    (["-rb", "-"], [("-r", "b")], ["-"], ["b"]),
    (["--", "-q", "a"], [], ["-q", "a"], []),
    (["a", "-n", "5", "b"], [("-n", "5")], ["a", "b"], ["-n", "5"]),
    (["a", "--", "-q"], [], ["a", "-q"], ["--", "-q"]),
]


@pytest.mark.parametrize(("args", "options", "operands", "files"), PARSED)
def test_arguments_are_parsed_as_getopt_does(args, options, operands, files):
    found = parse_arguments(args, GRAMMAR)
    assert found is not None
    assert ([*found.options], [*found.operands], [*found.files]) == (options, operands, files)


REFUSED = [
    "-x",
    "-qx",
    "--col",
    "--context 5",
    "--quiet",
    "--q",
    "-q5",
    "-n",
    "--arg x",
    "-c x",
    "--lines",
    "-r ~/x",
    "-n -q",
    "--lines --quiet",
]


@pytest.mark.parametrize("text", REFUSED)
def test_an_argument_that_the_grammar_does_not_explain_is_refused(text):
    assert parse_arguments(text.split(), GRAMMAR) is None


NAMES_OUTSIDE = r"""
for f in ../outside/*; do echo "$f"; done
x='../outside/*'; for f in $x; do echo "$f"; done
select f in ../outside/*; do break; done
f=(../outside/*); echo "$f"
type ../outside/secret
which -a ../outside/secret
command -v ~/secret
find -O3 / -name x
find -H .. -name x
find . -newer ../outside/secret
find . -anewer ../outside/secret
find . -samefile ../outside/secret
find . -newerac ../outside/secret
find -L . -name x
find . -follow
find -files0-from a.py
find . -fprintf out %p
find . -fls out
find . -name x -o -delete
find . -okdir cat {} \;
find . -regextype -delete
find -- . -name x
echo ~/.ssh/*
echo ../outside/*
echo link/*
echo */sec*
printf '%s\n' /etc/*
printf '%s\n' link/*
test -f /etc/passwd
test ! -e ../outside/secret
test a.py -nt ../outside/secret
test -f a.py -a -f ../outside/secret
test "$x" ../outside/secret
test -v x
df ../outside
ls ../outside
du ..
cd ../outside
stat ../outside/secret
which ../outside/program
type -a ../outside/program
command -v ../outside/program
find . -xtype f
find . -name link -readable
find . -name link -printf %Y
""".strip().splitlines()

NAMES_INSIDE = r"""
find . -newermt '1 day ago'
find . -perm -u+x -newer a.py
echo *.py
echo src/* "quoted *"
printf '%s\n' src/*.py
test -f a.py -a ! -d sub
find src -executable
which -a python3
type ls
command -v git
x=1; test "$x" = y
x=1; test -n "$x" -a "$x" != /etc/passwd
""".strip().splitlines()


@pytest.mark.finding("P9")
@pytest.mark.parametrize(
    "program", ["test", "[", "test x =", "seq", "sleep", "basename", "dirname", "wc -l", "git log --"]
)
@pytest.mark.parametrize("pattern", ["../*", "../no-name-begins-so*", "/etc/*", "~/*", "/nowhere/?"])
def test_a_pattern_outside_the_directories_asks_whatever_gets_the_names(scratch, program, pattern):
    assert scratch.run(f"{program} {pattern}").verdict is not Verdict.ALLOW


@pytest.mark.finding("P9")
@pytest.mark.parametrize("line", NAMES_OUTSIDE)
def test_a_question_about_names_outside_the_directories_asks(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK


@pytest.mark.finding("P9")
@pytest.mark.parametrize("line", NAMES_INSIDE)
def test_a_question_about_names_inside_is_allowed(scratch, line):
    decision = scratch.run(line)
    assert decision.verdict is Verdict.ALLOW, decision.reason


@pytest.mark.finding("P10")
def test_a_pattern_that_may_match_the_parent_directory_asks(scratch):
    assert scratch.run("cat .*/x").verdict is Verdict.ASK
    assert scratch.run("echo .*").verdict is Verdict.ASK


RUN_BY_FIND = {
    "-name '*.py' -exec wc -l {} +": True,
    "-exec grep -n text {} ;": True,
    "-exec head -3 {} ; -exec echo {} ;": True,
    "-exec sed -n 1p {} +": True,
    "-exec xxd {} ;": True,
    "-exec xxd {} +": False,  # it would write the second
    "-exec cat ../x {} ;": True,  # and its own file is judged
    "-exec rm {} ;": False,
    "-exec sed {} ;": False,
    "-exec jq {} ;": False,
    "-exec awk {} ;": False,
    "-exec grep -r x {} +": False,
    "-exec find {} ;": False,
    "-exec sh -c x {} ;": False,
    "-exec cat ./{} ;": False,
    "-exec cat {}": False,
    "-exec ;": False,
    "-execdir cat {} ;": False,
    "-ok cat {} ;": False,
    "-exec cat {} ; -delete": False,
}


@pytest.mark.finding("P13")
@pytest.mark.parametrize(("expression", "reads"), RUN_BY_FIND.items())
def test_find_runs_only_what_reads_the_names_that_it_found(expression, reads):
    found = find_files_read("find", [".", *shlex.split(expression)])
    assert (found is not None) is reads
    assert found is None or (found.is_deep and found.follows_links_in == (".",))


@pytest.mark.finding("P13")
def test_the_command_of_find_follows_links_unless_only_plain_files_are_found():
    for expression, linked in (("-type f", ()), ("-type f -o -name x", (".",)), ("-type l", (".",))):
        found = find_files_read("find", [".", *expression.split(), "-exec", "cat", "{}", "+"])
        assert found is not None and found.follows_links_in == linked
    assert find_files_read("find", [*["@x", "-exec", "cat", "{}", "+"]]) is None


@pytest.mark.finding("P9")
def test_a_colour_tells_nothing_of_what_a_link_leads_to(own_scratch):
    for line in ("ls --color", "ls --color=always sub", "ls -l --color=force .", "tree -C", "ls --hyperlink"):
        (own_scratch.project / "sub" / "up").unlink(missing_ok=True)
        (own_scratch.project / "sub" / "up").symlink_to("../../outside/missing")
        assert own_scratch.run(line).verdict is Verdict.ASK, line
    for line in ("ls --color=auto", "ls -l --color=never sub", "ls --color src", "tree"):
        assert own_scratch.run(line).verdict is Verdict.ALLOW, line
