"""Files that a line reaches by a link that it makes, or by a list from its input."""

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


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", LINKS_TO_READ)
def test_a_link_that_the_line_makes_leads_to_no_forbidden_file(own_ground, line):
    (own_ground.project / ".env").write_text("")
    (own_ground.project / "toenv").symlink_to(".env")
    assert own_ground.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
    assert own_ground.run(line, Mode.BYPASS).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", LINKS_TO_WRITE)
def test_a_link_that_the_line_makes_changes_no_forbidden_file(ground, line):
    assert ground.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY
    assert ground.run(line, Mode.BYPASS, deny=["Edit(other/**)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", ["printf '.env' | sort --files0-from=-", "echo .env | tar c --files-from=-"])
def test_a_list_of_files_from_the_input_may_name_a_forbidden_file(ground, line):
    assert ground.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
    assert ground.run(line, Mode.BYPASS).verdict is Verdict.ALLOW
