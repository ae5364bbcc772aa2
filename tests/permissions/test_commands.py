"""Shell commands: what is proven to read, what asks, what a rule reaches at any depth."""

import os
import subprocess

import pytest

from teamwright.permissions.shell_verdict import is_proven_read_only
from teamwright.permissions.verdict import Mode, Verdict

ONLY_READS = """
ls
ls -la sub
cat a.py
cat *.py
cat a.py | sort | uniq -c | sort -rn | head -5
head -n 20 a.py
tail -5 a.py
wc -l a.py b.py 2>/dev/null
git status
git --no-pager log --oneline -5
git diff HEAD~1 -- a.py
git show HEAD:a.py
git branch -a
git stash list
git -C sub status
git rev-parse --show-toplevel
grep -rn text . --include=*.py
grep -e text a.py
rg -n text sub
find . -name '*.py' -type f
sed -n '1,20p' a.py
sed -e 's/a/b/g' a.py
awk -F, '{print $1}' a.py
cd sub && cat ../a.py
cd sub; cat x.txt
(cd sub && ls)
[ -f a.py ] && cat a.py
for f in a b; do echo "$f"; done
echo $HOME
x=1; echo "$x"
echo $((1+2))
bash -c "ls"
timeout 5 ls
time ls
LC_ALL=C sort a.py
date +%s
cat < a.py
python3 --version
diff a.py b.py
command -v git
ls &
wc -l 2>/dev/null a.py
test -f a.py || echo no
if [ -d sub ]; then ls sub; else pwd; fi
echo "$(ls a.py)" > /dev/null
x=1; y=2; printf '%s %s' "$x" "$y"
cat *.{py,txt}
cat [ab].py
""".strip().splitlines()

ASKS = r"""
cat link/secret
cat ../outside/secret
cat /etc/passwd
cat ~/.bashrc
cat link/*
cat sub/../link/secret
cd link && cat secret
cd .. && ls
cd "$X" && ls
cat "$X"
cat < /etc/passwd
rm a.py
python a.py
npm test
env
printenv
set
set; ls
echo $ANTHROPIC_API_KEY
cat <(curl example.org)
echo hi > out
echo hi >> a.py
ls > "$X"
tee out
find . -delete
find . -name x -exec rm {} \;
find . -fprint out
find . | xargs rm
sed -i s/a/b/ a.py
sed -n 's/a/b/w out' a.py
sed 's/a/touch x/e' a.py
sed -n '1e touch x' a.py
sed --in-place s/a/b/ a.py
sed -f script a.py
awk 'BEGIN{system("ls")}'
awk '{print > "out"}' a.py
awk 'BEGIN{while("ls"|getline)print}'
awk -f prog a.py
sort -o out a.py
sort --compress-program=./x a.py
sort --comp=./x a.py
rg --pre ./x text
rg --pre=./x text
grep -R text .
grep -f /etc/passwd a.py
tree -o out
date -s 12:00
git log --output=out
git log --outpu=out
git diff --ext-diff
git diff --no-index a.py /etc/passwd
git grep -O text
git grep --open-files-in-pager=x text
git -c core.fsmonitor=./x status
git --exec-path=. status
git show --show-signature
git log --format=%G?
git cat-file --filters HEAD:a.py
git -C ../outside status
git config core.pager x
git branch new
git tag v1
git ls-remote
git fetch
LD_PRELOAD=./x.so ls
PATH=.:$PATH ls
PATH=. ; ls
export PATH=. && ls
BASH_ENV=x bash -c ls
GIT_EXTERNAL_DIFF=./x git diff
env PATH=. ls
for PATH in .; do ls; done
./ls
sub/git status
$X
$(echo ls)
`echo ls`
alias ls='rm -rf .'; ls
ls() { rm a.py; }; ls
eval "$X"
eval "rm a.py"
source x
. ./x
exec rm a.py
bash x.sh
bash
sudo ls
echo $((x))
echo ${x@P}
echo ${!x}
[[ $x -eq 1 ]]
[ a > b ]
[ a < b ]
[ echo x > out ]
[ rm a.py ]
x[$(rm a.py)]=1
trap 'rm a.py' EXIT
while cd ..; do cat x; done
command cd .. && cat x
eval 'cd ..' && cat x
cat [a-b].py
jq env a.json
jq -n --indent 2 env
comm -; rm x
wc --files0-from=/etc/passwd
date -f /etc/passwd
uniq a.py out
ls "unclosed
ls )
ls; }
mkdir new
touch new
cp a.py c.py
""".strip().splitlines()


@pytest.mark.promise("G1")
@pytest.mark.parametrize("command", ONLY_READS)
def test_a_command_that_is_proven_to_read_inside_is_allowed(scratch, command):
    assert scratch.run(command).verdict is Verdict.ALLOW


HERE = [
    ("cat <<EOF\nplain\nEOF", True),
    ("cat <<EOF\n$HOME $(ls) \\$(no) \\`no\\`\nEOF", True),
    ("cat <<'EOF'\n$(git push) `git push`\nEOF", True),
    ("cat <<-EOF\n\tplain\n\tEOF", True),
    ("cat <<EOF\n`ls`\nEOF", False),
    ("cat <<EOF\n$(ls)\nEOF", True),
    ("cat <<-EOF\n\t$(ls)\n\tEOF", False),  # the parser does not see this one
    ("cat <<EOF\n$ANTHROPIC_API_KEY\nEOF", False),
    ("cat <<EOF\nx $ANTHROPIC_API_KEY\nEOF", False),
    ('cat <<E"O"F\nx\nEOF', False),
]


@pytest.mark.promise("G1", "P7")
@pytest.mark.parametrize(("command", "allowed"), HERE)
def test_a_here_document_is_looked_into(scratch, command, allowed):
    assert scratch.run(command).verdict is (Verdict.ALLOW if allowed else Verdict.ASK)


@pytest.mark.promise("G1", "P7")
@pytest.mark.parametrize("command", ASKS)
def test_a_command_that_is_not_proven_asks(scratch, command):
    decision = scratch.run(command)
    assert decision.verdict is Verdict.ASK
    assert decision.rule
    assert decision.reason.endswith(".")


HIDDEN_PUSHES = r"""
git push
git push origin main
true && git push
true; git push
ls | git push
ls & git push
! git push
(git push)
{ git push; }
$(git push)
`git push`
echo "$(git push)"
echo ${x:-$(git push)}
cat <(git push)
x=$(git push)
x=(1 $(git push))
cat <<EOF && git push
[[ -n $(git push) ]]
if true; then git push; fi
for i in 1; do git push; done
while git push; do :; done
until git push; do :; done
case x in x) git push;; esac
f() { git push; }
env -i bash -c "git push"
env A=1 git push
env -S "git push"
sudo git push
sudo -u somebody -E git push
sudo --unheard-of git push
sudo A=1 git push
sudo -u somebody A=1 B=2 git push
capsh -- -c 'git push'
chronic git push
tini -- git push
gosu ada git push
cross-env A=1 git push
concurrently 'git push'
tmux new-session -d 'git push'
gdb -batch -ex 'shell git push'
sops exec-env x 'git push'
pyenv exec git push
nix-shell -p x --run 'git push'
git filter-branch --tree-filter 'git push' HEAD
git send-email --to-cmd='git push' x
ssh -o 'ProxyCommand git push' x
scp -S 'git push' a b:
vim -c '!git push' -c q
ncat --sh-exec 'git push' x 1
CC='git push' make
RUSTC_WRAPPER='git push' cargo build
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!git push' git x
nohup git push &
time git push
timeout -s KILL 5 git push
nice -n 5 git push
stdbuf -oL git push
setsid git push
xargs git push
xargs -n1 -I{} git push
find . -exec git push \;
find . -execdir git push {} +
bash -c "git push"
bash -lc 'cd x && git push'
sh -c "bash -c 'git push'"
eval "git push"
eval git push
command git push
builtin command git push
exec git push
coproc git push
trap "git push" EXIT
/usr/bin/git push
\git push
g"i"t push
'git' 'push'
git -C sub push
git --no-pager push
git -c user.name=x push
git --git-dir=.git push
A=1 git push
git rebase -x "git push" main
git bisect run git push
git submodule foreach 'git push'
watch git push
flock x git push
git push # a comment
git push 2>&1 > /dev/null
git >/dev/null push
git 2>&1 push origin
2>/dev/null git push
git <<< x push
git < a.py push
git <<EOF push
git -c alias.x='!git push' x
git -c core.pager='git push' log
xargs --arg-file=list git push
""".strip().splitlines()


@pytest.mark.promise("G2")
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("command", HIDDEN_PUSHES)
def test_a_deny_rule_reaches_a_command_at_any_depth_in_every_mode(scratch, command, mode):
    command += "\nx\nEOF" if "<<EOF" in command else ""
    decision = scratch.run(command, mode, allow=["Bash"], deny=["Bash(git push:*)"])
    assert decision.verdict is Verdict.DENY
    assert decision.rule == "Bash(git push:*) [denying]"


@pytest.mark.promise("K9")
@pytest.mark.parametrize("command", HIDDEN_PUSHES)
def test_git_manners_are_asked_about_at_any_depth(scratch, command):
    command += "\nx\nEOF" if "<<EOF" in command else ""
    everything_but_git = ["Bash(*)"]
    assert scratch.run(command, allow=everything_but_git, by_user=False).rule == "git policy"
    assert scratch.run(command, allow=everything_but_git, by_user=False, trusted=True).rule == "git policy"


@pytest.mark.finding("C3")
@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("git commit:*", "git commit -m x", True),
        ("git commit:*", "git push", False),
        ("git add -A", "git add -A", True),
        ("git add -A", "git add .", False),
        ("git:*", "git commit -m x", False),
        ("git * main", "git push origin main", False),
        ("git commit:*", "git commit -m x && git push", False),
        ("git commit:*", "bash -c 'git commit -m x'", True),
        ("git commit:*", "bash -c 'git commit -m x; git push'", False),
    ],
)
def test_a_rule_of_a_trusted_repository_answers_for_exactly_the_git_command_that_it_names(
    scratch, rule, command, allowed
):
    theirs = {"allow": [f"Bash({rule})"], "by_user": False}
    assert (scratch.run(command, trusted=True, **theirs).verdict is Verdict.ALLOW) is allowed
    assert scratch.run(command, **theirs).verdict is Verdict.ASK
    assert scratch.run(command, Mode.DONT_ASK, **theirs).verdict is Verdict.DENY


HIDDEN_WORDS = [
    "$X push",
    "git $X",
    "$(echo git) push",
    'git "$X" origin',
    "g$X push",
    "git push $X",
    "git -c alias.p=push p",
    "/usr/bin/g?t push",
    'eval "$X"',
    "eval git $X",
    'bash -c "$X"',
    'trap "$X" EXIT',
    "exec $X push",
    'sudo "$X" push',
    "git p*",
    r"env -C . bash -c 'git push a\ b'",
]


@pytest.mark.promise("G2")
@pytest.mark.parametrize("command", HIDDEN_WORDS)
def test_a_hidden_word_that_a_deny_rule_may_name_is_never_allowed(scratch, command):
    rules = {"allow": ["Bash(git:*)", "Bash(echo:*)"], "deny": ["Bash(git push:*)"]}
    for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS):
        assert scratch.run(command, mode, **rules).verdict is not Verdict.ALLOW
    assert scratch.run(command, Mode.BYPASS, **rules).verdict is Verdict.DENY


def test_what_cannot_be_parsed_asks_and_with_a_deny_rule_bypass_denies_it(scratch):
    assert scratch.run("ls )", Mode.BYPASS).verdict is Verdict.ALLOW
    assert scratch.run("ls )", Mode.BYPASS, deny=["Bash(git push:*)"]).verdict is Verdict.DENY
    assert scratch.run("ls )", allow=["Bash(ls:*)"]).verdict is Verdict.ASK


MISREAD = [
    "gi\\\nt push",
    "ls\n\\git push",
    "ls \n\\\ngit push",
    "ls\rgit push",
    "ls \u2028 git push",
    "ls \u202e git",
    "ls \x1b[2J",
    "ls\u00a0x",
]


@pytest.mark.promise("P7")
@pytest.mark.parametrize("command", MISREAD)
def test_characters_that_are_read_differently_are_never_proven(scratch, command):
    assert scratch.run(command, allow=["Bash(gi:*)", "Bash(ls:*)"]).verdict is Verdict.ASK
    if "git push" in command.replace("\\\n", ""):
        assert scratch.run(command, Mode.BYPASS, deny=["Bash(git push:*)"]).verdict is Verdict.DENY


@pytest.mark.promise("G2")
def test_every_command_of_a_line_must_be_allowed(scratch):
    allow = ["Bash(npm test:*)"]
    assert scratch.run("npm test", allow=allow).verdict is Verdict.ALLOW
    assert scratch.run("npm test -- --watch && ls", allow=allow).verdict is Verdict.ALLOW
    assert scratch.run("npm test && npm publish", allow=allow).verdict is Verdict.ASK
    assert scratch.run("npm test $(npm publish)", allow=allow).verdict is Verdict.ASK
    assert scratch.run("npm test > out", allow=allow).verdict is Verdict.ASK
    assert scratch.run("LD_PRELOAD=./x npm test", allow=allow).verdict is Verdict.ASK
    assert scratch.run("NODE_ENV=test npm test", allow=allow).verdict is Verdict.ALLOW
    assert scratch.run("npm testing", allow=allow).verdict is Verdict.ASK
    assert scratch.run("npm test:unit", allow=allow).verdict is Verdict.ASK
    assert scratch.run("./npm test", allow=allow).verdict is Verdict.ASK


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("Bash(npm run test)", "npm run test", Verdict.ALLOW),
        ("Bash(npm run test)", "npm run test -- -x", Verdict.ASK),
        ("Bash(npm run test)", 'npm "run" test', Verdict.ALLOW),
        ("Bash(npm run test)", 'npm "run test"', Verdict.ASK),
        ("Bash(make *)", "make all", Verdict.ALLOW),
        ("Bash(make *)", "maker", Verdict.ASK),
        ("Bash(make * fast)", "make all fast", Verdict.ALLOW),
        ("Bash(make * fast)", "make all slow", Verdict.ASK),
        ("Bash(make * fast)", "make x; rm y fast", Verdict.ASK),
        ("Bash(timeout:*)", "timeout 5 rm a.py", Verdict.ASK),
        ("Bash(xargs:*)", "ls | xargs rm", Verdict.ASK),
        ("Bash(find:*)", "find . -exec rm {} +", Verdict.ASK),
        ("Bash(find:*)", "find . -delete", Verdict.ASK),
        ("Bash(find . -delete:*)", "find . -delete", Verdict.ALLOW),
        ("Bash(sudo apt:*)", "sudo apt install x", Verdict.ALLOW),
        ("Bash(bash run.sh)", "bash run.sh", Verdict.ALLOW),
        ("Bash(bash:*)", "bash -c 'rm x'", Verdict.ASK),
        ("Bash", "rm -rf x; ls )", Verdict.ALLOW),
        ("Bash(:*)", "anything $X", Verdict.ALLOW),
    ],
)
def test_a_command_rule_matches_words(scratch, rule, command, verdict):
    assert scratch.run(command, allow=[rule]).verdict is verdict


@pytest.mark.promise("G2")
def test_an_ask_rule_stands_before_an_allow_rule(scratch):
    decision = scratch.run("ls", allow=["Bash(ls:*)"], ask=["Bash(ls:*)"])
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "Bash(ls:*) [asking]")


@pytest.mark.promise("G2")
def test_a_read_rule_also_holds_for_what_the_shell_reads(scratch):
    assert scratch.run("cat a.py", deny=["Read(a.py)"]).verdict is Verdict.DENY
    assert scratch.run("cat < a.py", deny=["Read(a.py)"]).verdict is Verdict.DENY
    assert scratch.run("cat *.py", deny=["Read(a.py)"]).verdict is Verdict.DENY
    assert scratch.run("grep -r x .", deny=["Read(a.py)"]).verdict is Verdict.ASK
    assert scratch.run("git show HEAD:a.py", deny=["Read(a.py)"]).verdict is Verdict.DENY
    assert scratch.run("cat b.py", deny=["Read(a.py)"]).verdict is Verdict.ALLOW
    assert scratch.run("cat a.py", allow=["Bash(cat:*)"], deny=["Read(a.py)"]).verdict is Verdict.DENY
    assert scratch.run("cat a.py", Mode.BYPASS, deny=["Read(a.py)"]).verdict is Verdict.DENY
    assert scratch.run("grep -r x .", allow=["Bash(grep:*)"], deny=["Read(a.py)"]).verdict is Verdict.ASK
    outside = scratch.outside / "secret"
    assert scratch.run(f"cat {outside}", allow=[f"Read(/{scratch.outside}/**)"]).verdict is Verdict.ALLOW


@pytest.mark.promise("G2")
def test_an_edit_rule_also_holds_for_what_the_shell_writes(scratch):
    assert scratch.run("echo x > src/y", deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run("echo x > src/y", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run("cp a.py src/y", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run("tee */main.py", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run("touch src/y", allow=["Bash(touch:*)"], deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run("echo x > src/y", allow=["Edit(src/**)"]).verdict is Verdict.ALLOW
    assert scratch.run("echo x > link/y", allow=["Edit(link/**)"]).verdict is Verdict.ASK
    assert scratch.run("echo x > .git/hooks/pre-commit", allow=["Edit(**)"]).verdict is Verdict.ASK


ACCEPTED = [
    "mkdir -p src/new",
    "touch src/new.py",
    "cp a.py src/",
    "mv a.py src/c.py",
    "mkdir x && cp a.py x/y",
    "test -f y || cp a.py y 2>&1",
    "cp -r src sub",
]
NOT_ACCEPTED = """
rm a.py
/usr/bin/../../tmp/ls
/bin/../ls
cd src && touch -- --pre=x && rg y *
cd src && touch ./--pre=x && rg y *
mkdir -p new && cd new && mkdir -- -d && sort *
cd src && touch @list && strings *
mkdir ../x
touch link/x
touch ~/.bashrc
cp a.py link/x
cp link/secret x
cp ../outside/secret x
mv a.py /tmp/x
touch .git/hooks/pre-commit
cp a.py .git/hooks/pre-commit
cp a.py .envrc
mv a.py .claude
mkdir -p .teamwright/x
touch .github/workflows/x.yml
cp -s a.py x
cp -l a.py x
cp -L link x
cp -t src a.py
cp -r link x
mv src new && cat new/main.py
for i in 1 2; do cat x.txt; mv sub/x.txt x.txt; done
{ sleep 1; cat x.txt; } & mv sub/x.txt x.txt
cat x.txt | mv sub/x.txt x.txt
until false; do cat x.txt; cp -r sub x.txt; done
echo x > a.py
ln -s / x
chmod +x a.py
""".strip().splitlines()


@pytest.mark.promise("G1")
@pytest.mark.parametrize("command", ACCEPTED)
def test_accepting_edits_also_accepts_plain_changes_inside(scratch, command):
    assert scratch.run(command, Mode.ACCEPT_EDITS).verdict is Verdict.ALLOW
    assert scratch.run(command).verdict is Verdict.ASK
    assert scratch.run(command, Mode.DONT_ASK).verdict is Verdict.DENY


@pytest.mark.promise("G1", "P7")
@pytest.mark.parametrize("command", NOT_ACCEPTED)
def test_accepting_edits_does_not_accept_more_than_that(scratch, command):
    assert scratch.run(command, Mode.ACCEPT_EDITS).verdict is Verdict.ASK


@pytest.mark.promise("P7")
def test_a_copied_directory_is_judged_by_all_that_it_would_bring(own_scratch):
    evil = own_scratch.project / "sub" / ".git" / "hooks"
    evil.mkdir(parents=True)
    (evil / "post-checkout").write_text("#!/bin/sh\n")
    assert own_scratch.run("cp -r sub src", Mode.ACCEPT_EDITS).verdict is Verdict.ASK
    assert own_scratch.run("cp -r sub/. .", Mode.ACCEPT_EDITS).verdict is Verdict.ASK


@pytest.mark.promise("P7")
def test_what_is_in_a_copied_directory_goes_through_no_link(own_scratch):
    (own_scratch.project / "sub" / "main.py").symlink_to(own_scratch.outside / "secret")
    for command in ("cp -r src/. sub", "cp -r src/ sub", "cp -r ./src/./ sub"):
        assert own_scratch.run(command, Mode.ACCEPT_EDITS).verdict is Verdict.ASK


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    "line",
    [
        "mkdir -p q; touch q/peek; cp -rT q .",
        "mkdir -p q/src; touch q/src/main.py; cp -r q/* .",
        "mkdir -p q/src; touch q/src/new; cp -r q/s* .",
        "mkdir -p q/src && touch q/src/new && cp -r ./src/../q/src .",
        "make tree; cp -r q .",
    ],
)
def test_a_copy_of_what_the_line_itself_makes_asks(own_scratch, line):
    (own_scratch.project / "peek").symlink_to(own_scratch.outside / "secret")
    assert own_scratch.run(line, Mode.ACCEPT_EDITS, allow=["Bash(make tree)"]).verdict is Verdict.ASK


@pytest.mark.promise("P7")
def test_a_copy_into_a_directory_that_the_line_makes_is_judged_by_its_files(own_scratch):
    (own_scratch.project / "workflows").mkdir()
    assert own_scratch.run("mkdir .github; cp -r workflows .github", Mode.ACCEPT_EDITS).verdict is Verdict.ASK
    assert own_scratch.run("mkdir -p d/e && cp a.py d/e", Mode.ACCEPT_EDITS).verdict is Verdict.ALLOW
    assert own_scratch.run("touch a.py; cp a.py new.py", Mode.ACCEPT_EDITS).verdict is Verdict.ALLOW


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    "line", ["mv sub/deep new", "cp -r sub/deep new", "cp -P sub/deep/up new", "mv sub/deep/up new"]
)
def test_a_link_that_leads_outside_at_its_new_place_asks(own_scratch, line):
    (own_scratch.project / "sub" / "deep").mkdir()
    (own_scratch.project / "sub" / "deep" / "up").symlink_to("../../outside/secret")
    assert own_scratch.run(line, Mode.ACCEPT_EDITS).verdict is Verdict.ASK
    (own_scratch.project / "sub" / "deep" / "up").unlink()
    (own_scratch.project / "sub" / "deep" / "up").symlink_to("../x.txt")
    assert own_scratch.run("mv sub/deep sub/deeper", Mode.ACCEPT_EDITS).verdict is Verdict.ALLOW


@pytest.mark.promise("P7")
def test_what_is_moved_away_is_changed_too(scratch):
    assert scratch.run("mv src/main.py sub/m.py", Mode.ACCEPT_EDITS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run("mv .git/config sub/c", Mode.ACCEPT_EDITS).verdict is Verdict.ASK
    assert scratch.run("mv src/main.py sub/m.py", Mode.ACCEPT_EDITS).verdict is Verdict.ALLOW


@pytest.mark.promise("P7")
def test_a_file_name_that_looks_like_an_option_is_read_as_the_option_it_becomes(own_scratch):
    assert own_scratch.run("sort *").verdict is Verdict.ASK  # `link` leads outside
    os.unlink(own_scratch.project / "link")
    assert own_scratch.run("sort *.py").verdict is Verdict.ALLOW
    (own_scratch.project / "--compress-program=x.py").write_text("")
    assert own_scratch.run("sort *.py").verdict is Verdict.ASK


@pytest.mark.promise("K1", "P7")
def test_git_is_not_proven_where_the_repository_configures_it_to_run_something(own_scratch):
    git = ["git", "-C", str(own_scratch.project), "config"]
    assert own_scratch.run("git status").verdict is Verdict.ALLOW
    subprocess.run([*git, "core.fsmonitor", "./evil"], check=True)
    assert own_scratch.run("git status").rule == "trust"
    assert own_scratch.run("git -C sub status").rule == "trust"
    assert own_scratch.run("cd sub && git status").rule == "trust"
    subprocess.run([*git, "core.fsmonitor", "false"], check=True)
    assert own_scratch.run("git status").verdict is Verdict.ALLOW
    subprocess.run([*git, "diff.evil.textconv", "./evil"], check=True)
    assert own_scratch.run("git diff").rule == "trust"


@pytest.mark.parametrize(
    ("command", "proven"),
    [
        *(("ls", True), ("cat a | wc -l", True), ("cd sub", False), ("cd sub && ls", False), ("ls > x", False)),
        *(
            ("ls > /dev/null", True),
            ("touch x", False),
            ("x=1", False),
            ("x=1; ls", False),
            ("ls )", False),
            ("", False),
        ),
    ],
)
def test_only_what_leaves_nothing_behind_may_run_beside_others(scratch, command, proven):
    assert is_proven_read_only(command, scratch.project) is proven


@pytest.mark.finding("P9")
def test_a_directory_change_that_failed_behind_a_negation_leaves_the_words_where_they_were(own_scratch):
    (own_scratch.project / "sub" / "deep").mkdir()
    os.symlink(own_scratch.outside / "secret", own_scratch.project / "peek")
    for line in ("! cd gone && wc ./*", "! cd sub || wc ./*", "time ! cd sub && cat *", "! { cd gone; } && wc *"):
        assert own_scratch.run(line).verdict is Verdict.ASK, line
    for line in ("cd sub && wc ./*", "! grep -q x a.py && wc a.py", "! cd sub || wc a.py"):
        assert own_scratch.run(line).verdict is Verdict.ALLOW, line
