"""`teamwright database`, and a command that works on files only, as a person types them."""

import pytest

from teamwright.database.address import parse_address
from teamwright.database.schema import VERSION
from tests.ui.program import Program, error_of


@pytest.fixture
def program(tmp_path, repo, own_home):
    return Program(repo, tmp_path / "home")


@pytest.mark.promise("J6")
@pytest.mark.slow
def test_a_team_space_is_checked_made_and_described(program, postgres):
    url = postgres.new_space()
    schema = parse_address(url).schema
    before = program.run("--database", url, "database", "check")
    assert before.returncode == 3 and f"the database has no schema {schema} of Teamwright" in before.stdout
    made = program.run("--database", url, "database", "init")
    assert (made.returncode, made.stdout) == (0, f"The schema {schema} was made, in version {VERSION}.\n")
    program.env["TEAMWRIGHT_DATABASE"] = url
    assert "Nothing was changed." in program.run("database", "init").stdout
    assert "Teams can use this database." in program.run("database", "check").stdout
    assert "0, and 0 in the archive" in program.run("database", "status").stdout
    assert program.run("teams").stdout.startswith("No team yet.")
    examined = program.run("doctor", "--json").stdout
    assert f"{schema}, version {VERSION}" in examined


def test_a_password_in_an_address_is_refused_and_not_repeated(program):
    done = program.run("--database", "postgresql://ann:s3cret@db.example/teams", "database", "check")
    assert done.returncode == 2 and "contains a password" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr


def test_a_command_about_a_database_without_tables_says_how_to_make_them(program, postgres):
    done = program.run("--database", postgres.new_space(), "stop", "crew")
    assert error_of(done)[0] == "database" and done.returncode == 3 and "database init" in done.stderr
    assert error_of(program.run("--database", "none", "stop", "crew"))[0] == "unknown-team"
