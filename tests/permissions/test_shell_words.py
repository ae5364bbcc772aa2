"""What the parser knows of each word of a line: its text, its fixed parts, or nothing."""

import pytest

from teamwright.shell_lines.parse import parse_command


def words_of(line, cwd):
    [command] = parse_command(line, cwd).commands
    return tuple(command.shape(at) for at in range(len(command.words)))


@pytest.mark.finding("P12")
@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ('"$X/.env"', (None, "/.env")),
        ('"${X}/.env"', (None, "/.env")),
        ('src/"$X"', ("src/", None)),
        ('~/"$X"', ("~/", None)),
        ('".e$X"v', (".e", None, "v")),
        (".en[!v]", (".en", None)),
        ("$X/.env", (None,)),
        (".{env,$X", (None,)),
        ('"$@"', (None,)),
        ('"${a[@]}/.env"', (None,)),
        ('"~/$X"', ("./~/", None)),
        ('x"~"', ("x~",)),
        ('"~"/x', ("./~/x",)),
    ],
)
def test_of_an_unknown_word_the_fixed_parts_are_known(tmp_path, word, shape):
    assert words_of(f"cat {word}", tmp_path) == (("cat",), shape)


@pytest.mark.finding("P12")
def test_of_an_unknown_redirection_the_fixed_parts_are_known(tmp_path):
    [redirect] = parse_command('ls > "$X/src/q"', tmp_path).redirects
    assert (redirect.target, redirect.shape) == (None, (None, "/src/q"))


def test_of_a_word_that_braces_leave_empty_it_is_known_that_nothing_is_written(tmp_path):
    assert words_of("cat {,a}", tmp_path) == (("cat",), ("",), ("a",))
