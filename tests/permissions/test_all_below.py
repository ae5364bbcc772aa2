"""A program that changes a directory with everything below it changes what rules forbid to change there."""

import os

import pytest

from teamwright.permissions.verdict import Mode, Verdict

DENIED = r"""
rm -r .
rm -r $PWD
rm -rf "$PWD/"
rm -r ../project
rm -rf ..
rm -r sub/..
cd sub && rm -r ..
rm -r s*
find . -delete
find -delete
find sub src -delete
find . ! -name x -delete
find . -delete -name x
find . -name '*.py' -delete
chmod -R 000 .
chmod --recursive 000 .
chown -hR root .
mv -f src ../outside
git checkout .
git restore .
git -C sub checkout ..
git clean -fdx .
rsync -a --delete sub .
rsync -a other/ .
cp -r other/. .
cp -a other/ .
cp -l src/main.py x
cp --link src/main.py x
cp -al . ../outside
cp -R . -l x
mv -t ../outside src
cp --target=src a.py
cp --t src a.py
cp -rt src a.py
cp -fat src a.py
cp -r other/src .
cd other && cp -r src ..
cd other && cp --parents src/main.py ..
cp -r other/. new && cp -rT other .
cp --recurs "$PWD/other/src" .
cp --arch other/. .
mv other/src .
rsync -a $PWD/other/src .
chmod --recurs 000 .
gzip --rec .
sed --in-pl s/o/x/ src/main.py
tar --creat -f src/x.tar a.py
tar --delete -f src/x.tar a.py
install a.py src
ln a.py src
sort a.py -uo src/new
sort --outp=src/new a.py
uniq a.py src/new
xxd a.py src/new
xxd -r a.py src/new
csplit a.py 1 -fsrc/x
fallocate -l 1 src/new
script src/new -c ls
/usr/bin/time -o src/new ls
strace -o src/new ls
history -w src/new
zip src/x a.py
tar cf src/x.tar a.py
tar -czf src/x.tar a.py
tar --file=src/x.tar -c a.py
tar cf z.tar --remove-files src/main.py
tar cf z.tar --remove-files src
gawk -osrc/new 1 a.py
sed -i'src/*' s/o/x/ a.py
curl -D src/new https://example.org
curl -c src/new https://example.org
curl --trace src/new https://example.org
wget -o src/new https://example.org
git clone . src/q
git init src/q
git worktree add src/q
git bundle create src/new HEAD
git format-patch --output-directory=src -1
git checkout-index --prefix=src/ -f a.py
git config -f src/new a.b c
git --work-tree=src checkout HEAD -- a.py
git clean -fdx
git clean -fdxe x
git clean -fdx -e x
git -C sub clean -fd ..
git clean -fd :/
git rm -rq ':/src'
git rm -rq ':(top)src'
git -C sub restore ':(top,glob)src/**'
git -C src init
git -C src init q
git -C ./src clone .. q
git -C src clone ../sub
git -C src -c a.b=c format-patch -1
git -C src bundle create x HEAD
git -C src diff --output=x
git -C src archive -o x.tar HEAD
cd src && git init
cd src && git clone https://example.org/x.git
git submodule add https://example.org/x src/q
git --git-dir=src/x init
git --git-dir src/x init
git init --separate-git-dir src/x sub/n
git clone --separate-git-dir=src/x . n
git fast-export --export-marks=src/x HEAD
git read-tree --index-output=src/x HEAD
git pack-objects src/p
git interpret-trailers --trailer a:b --in-place src/main.py
gzip -r .
gzip -rk .
gunzip --recursive .
zstd -r .
mytool $'\163rc/main.py' && rm $'\x73rc/main.py'
"""
ALLOWED = r"""
rm -r sub
rm -rf sub/.
rm -r build
find sub -delete
find . -name '*.pyc' -delete
chmod 755 .
chmod -R 755 sub
mv sub/x.txt .
cp a.py .
cp -r other copy
cp -r other/. copy
rsync -a other/ sub
git checkout sub
touch .
zip x.zip src/main.py
tar cf x.tar src
tar xf src/x.tar
tar tf src/x.tar
cp src/main.py sub
cp -r src sub
mkdir q && cp q/*.txt sub
sort -o sub/x src/main.py
git clone src q
uniq src/main.py
strace -o x cat src/main.py
git clean -fdxn
git clean --dry-run
git clean -fd sub
git -C sub init
git -C sub clone https://example.org/x.git
git -C sub format-patch -1
git submodule update --init src
git bundle verify src/x
git --git-dir=src/x log
git -C
git -C sub -C
git -c
git fast-export HEAD
git worktree list
gzip -r sub
"""


def lines(text):
    return text.strip().splitlines()


MOVED = r"""
command cd src && touch q
command -p cd src && touch q
builtin cd src && touch q
command builtin cd src; touch q
time cd src && touch q
eval cd src && touch q
eval "cd src"; touch q
command eval "cd src"; touch q
command pushd src && touch q
pushd src; touch q
f() { cd src; }; f; touch q
f() { command cd src; }; f && touch q
if command cd src; then touch q; fi
X=cd; $X src; touch q
c\d src && touch q
{ command cd src; } && touch q
command cd src > /dev/null && touch q
while command cd src; do touch q; done
! command cd src; touch q
coproc cd src; command cd src; touch q
cd src & wait; command cd src; touch q
env -C src touch q
env --chdir=src touch q
env -iC src touch q
env --chd src touch q
cmake -E chdir src touch q
sudo -D src touch q
sudo --chdir=src touch q
unshare --wd=src touch q
find . -execdir touch q \;
parallel --wd src touch ::: q
env -C src bash -c 'touch q'
"""


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", lines(MOVED))
def test_a_rule_about_editing_holds_after_every_way_to_change_the_directory(own_scratch, line):
    assert own_scratch.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert own_scratch.run(line, allow=["Bash"], deny=["Edit(src/**)"]).verdict is not Verdict.ALLOW


COPIES_A_SECRET = r"""
cp -r . x
cp --recurs . x
cp --recursive "$PWD" x
cp --arch . x
cp -fRv $PWD .
cd sub && cp -r --no-target-directory .. ../x
mv ../project ../x
rsync -a . host:
"""


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", lines(COPIES_A_SECRET))
def test_a_denied_file_is_not_copied_with_its_directory(own_scratch, line):
    (own_scratch.project / ".env").write_text("KEY=1\n")
    assert own_scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
    assert own_scratch.run(line, Mode.BYPASS, deny=["Read(.env.other)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", lines(DENIED))
def test_a_rule_about_editing_holds_for_what_is_below_a_changed_directory(own_scratch, line):
    scratch = own_scratch
    (scratch.project / "other" / "src").mkdir(parents=True)
    (scratch.project / "other" / "src" / "main.py").write_text("x\n")
    decision = scratch.run(line, Mode.BYPASS, deny=["Edit(src/**)"])
    assert decision.verdict is Verdict.DENY
    assert "Edit(src/**)" in decision.rule
    assert scratch.run(line, allow=["Bash"], deny=["Edit(src/**)"]).verdict is Verdict.DENY


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", lines(ALLOWED))
def test_a_rule_about_editing_says_nothing_of_other_directories(scratch, line):
    assert scratch.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line", ["mkdir q && touch q/x && cp -r q/* .", "for x in 1; do mkdir -p q/src; cp -r q/s* .; done"]
)
def test_a_pattern_that_matches_nothing_yet_may_match_any_name(scratch, line):
    assert scratch.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run("mkdir q; cp -r q/*.txt sub", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
def test_a_rule_about_a_name_counts_where_a_file_of_that_name_is(own_scratch):
    assert own_scratch.run("rm -r sub", Mode.BYPASS, deny=["Edit(.env)"]).verdict is Verdict.ALLOW
    (own_scratch.project / "sub" / "deep").mkdir()
    (own_scratch.project / "sub" / "deep" / ".env").write_text("KEY=x\n")
    denied = own_scratch.run("rm -r sub", Mode.BYPASS, deny=["Edit(.env)"])
    assert denied.verdict is Verdict.DENY
    assert "deep/.env" in denied.reason


@pytest.mark.finding("P12")
def test_a_directory_with_too_many_files_to_look_through_is_denied(own_scratch, monkeypatch):
    monkeypatch.setattr("teamwright.permissions.path_verdicts._MAX_ENTRIES", 10)
    for number in range(12):
        (own_scratch.project / "sub" / str(number)).touch()
    assert own_scratch.run("rm -r sub", Mode.BYPASS, deny=["Edit(.env)"]).verdict is Verdict.DENY
    assert own_scratch.run("rm -r sub", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.ALLOW


def test_private_files_are_not_removed_with_a_directory_above_them(own_scratch):
    above = os.path.dirname(own_scratch.home)
    decision = own_scratch.run(f"rm -r {above}", Mode.BYPASS)
    assert decision.verdict is Verdict.DENY
    assert decision.rule == "private files"


@pytest.mark.finding("P12")
def test_a_copy_that_makes_hard_links_is_a_change_of_what_links_in_it_lead_to(own_scratch):
    assert own_scratch.run("cp -rl sub x", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.ALLOW
    os.symlink("../src/main.py", own_scratch.project / "sub" / "link.py")
    assert own_scratch.run("cp -rl sub x", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert own_scratch.run("cp -r sub x", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.ALLOW
