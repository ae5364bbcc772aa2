"""Files that a line reaches by a link that it makes or moves, or by a list from its input."""

import os

import pytest

from teamwright.permissions.verdict import Mode, Verdict

LINKS_TO_READ = """
ln -s . z; cat z/toenv
ln -s . z && cat ./z/.env
ln -s "$PWD" z; cat z/.env
ln -s .. sub/up; cat sub/up/toenv
cd sub; ln -s .. up; cat up/toenv
ln -s . z; ln -s z y; cat y/toenv
ln -sfn . z; cat < z/toenv
ln -s . z; cd sub; cat ../z/toenv
ln -s . /$PWD/z; cat z/toenv
ln -s . z; cat /$PWD/z/toenv
""".strip().splitlines()
LINKS_TO_WRITE = """
ln -s . z; echo > z/src/new
ln -s "$PWD" z; echo > z/src/new
ln -s .. sub/up; touch sub/up/src/n
cp -al src z; echo x > z/main.py
cp -l src/main.py z; echo > z
cp -s "$PWD/src/main.py" z; echo x > z
ln src/main.py sub; echo x > sub/main.py
""".strip().splitlines()


MOVED_LINKS = """
mv sub/q q && echo x > q/new
mv sub/q . && echo x > q/new
mv sub/q z; touch z/new
mv sub/q sub/w; mv sub/w w; touch w/new
cp -P sub/q . && echo x > q/new
cp -a sub/q z && tee z/new < a.py
ln sub/q . && echo x > q/new
rsync -a sub/q . && echo x > q/new
git mv sub/q q && echo x > q/new
mv sub/* . && echo x > q/new
mv sub/deep/er . && echo x > er/q/new
cp -a sub/deep z && echo x > z/er/q/new
mv sub/abs z && echo x > z/new
cp -P sub/abs z; touch z/new
cp -a sub z && echo x > z/abs/new
for i in 1 2; do cp -P sub/abs z; done
ln -s src z; ln -s src z
while read x; do ln -s src z; done < a.py
""".strip().splitlines()


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", MOVED_LINKS)
def test_a_relative_link_that_the_line_moves_changes_no_forbidden_file(own_scratch, line):
    scratch = own_scratch
    (scratch.project / "sub" / "deep" / "er").mkdir(parents=True)
    (scratch.project / "sub" / "q").symlink_to("src")
    (scratch.project / "sub" / "deep" / "er" / "q").symlink_to("../src" if line.startswith("mv") else "../../src")
    (scratch.project / "sub" / "abs").symlink_to(scratch.project / "src")
    assert scratch.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS, deny=["Edit(other/**)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line", ["ln -s sub z; make", "ln -s sub z; touch z/new", "cp -a sub z; touch z/new", "cp -P sub/src z && ls z"]
)
def test_links_may_be_made_and_moved_and_those_to_other_files_used(own_scratch, line):
    (own_scratch.project / "sub" / "src").symlink_to(own_scratch.project / "src")
    (own_scratch.project / "sub" / "to").symlink_to("x.txt")
    assert own_scratch.run(line, Mode.BYPASS, deny=["Edit(src/**)", "Read(.env)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
def test_no_number_of_other_links_hides_the_one_that_leads_to_a_forbidden_file(own_scratch):
    (own_scratch.project / ".env").write_text("")
    (own_scratch.project / "toenv").symlink_to(".env")
    many = " ".join(f"ln -s nothing d{number};" for number in range(20))
    again = " ".join(f"ln -sfn d{number} z;" for number in range(120))
    for before in (many, again):
        line = f"{before} ln -sfn . z; base64 z/toenv"
        assert own_scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY


@pytest.mark.finding("P12")
def test_a_moved_directory_with_too_many_files_may_hold_any_link(own_scratch, monkeypatch):
    monkeypatch.setattr("teamwright.permissions.created_links._MAX_ENTRIES", 3)
    for number in range(5):
        (own_scratch.project / "sub" / str(number)).touch()
    line = "mv sub new && cat new/x.txt"
    assert own_scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
    assert own_scratch.run("mv sub new && cat a.py", Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", LINKS_TO_READ)
def test_a_link_that_the_line_makes_leads_to_no_forbidden_file(own_scratch, line):
    (own_scratch.project / ".env").write_text("")
    (own_scratch.project / "toenv").symlink_to(".env")
    assert own_scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
    assert own_scratch.run(line, Mode.BYPASS).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", LINKS_TO_WRITE)
def test_a_link_that_the_line_makes_changes_no_forbidden_file(scratch, line):
    assert scratch.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS, deny=["Edit(other/**)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line",
    [
        "printf '.env' | sort --files0-from=-",
        r"printf '.env\0' | cat - | wc --files0-from -",
        "echo .env | tar c --files-from=-",
        "git ls-files -z | sort --files0-from=-",
    ],
)
def test_a_list_of_files_from_the_input_may_name_a_forbidden_file(scratch, line):
    assert scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
    assert scratch.run(line, Mode.BYPASS).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    "line",
    [
        "for i in 1 2; do ln -s $PWD z; mv -T z/l sub/*; mv -t sub/. *; cp -s l/main.py z/n; rm -rf z; done",
        "cp -P sub/l z; cat //etc/hosts //z /// //",
        "for i in {1..200}; do mv sub x$i; mv x$i sub; done; ls",
        "for i in {1..60}; do for j in {1..60}; do ln -s $i $j; done; done; cat 7",
        "for i in {1..40}; do ln -s z$i/z$i z$i; ln -s . z$i; mv z$i z; done; cat z/z/z/z",
    ],
)
@pytest.mark.slow_after(2)
def test_a_line_with_many_links_gets_its_verdict_in_bounded_steps(own_scratch, line, monkeypatch):
    (own_scratch.project / "sub" / "l").symlink_to("../src")
    steps = 0

    def count(path):
        nonlocal steps
        steps += 1
        return normpath(path)

    normpath = os.path.normpath
    monkeypatch.setattr(os.path, "normpath", count)
    own_scratch.run(line, Mode.BYPASS, deny=["Read(.env)"])
    assert steps < 500_000


@pytest.mark.finding("P12")
def test_a_link_that_cannot_be_read_may_lead_anywhere(own_scratch, monkeypatch):
    (own_scratch.project / "sub" / "l").symlink_to("x.txt")

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(os, "readlink", refuse)
    assert own_scratch.run("cp -a sub z; cat z/l", Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
    assert own_scratch.run("cp -a sub z; cat a.py", Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.ALLOW
