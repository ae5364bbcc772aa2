import pytest

from teamwright.agent.reminders import MEANING, WORDS, ModeReminder, Role, news_of
from teamwright.permissions.verdict import Mode


class Told:
    """The mode of an agent, and what it is reminded of."""

    def __init__(self, role: Role, mode: Mode = Mode.DEFAULT, *, known: Mode | None = None, news: bool = True) -> None:
        self.mode = mode
        self.remind = ModeReminder(lambda: self.mode, role, known, news=news)

    def __call__(self, *, begins: bool) -> str:
        return self.remind(begins)


def test_every_mode_has_a_line_of_meaning():
    assert set(MEANING) == set(Mode)
    assert all(len(line) < 80 and not line.endswith(".") for line in MEANING.values())


@pytest.mark.promise("G6")
def test_a_turn_begins_with_the_whole_reminder_and_each_round_has_a_short_one():
    told = Told(Role.LEAD, Mode.DELEGATE, known=Mode.DELEGATE)
    words = WORDS[Role.LEAD, Mode.DELEGATE]
    assert words.begins in told(begins=True)
    assert words.begins not in (first := told(begins=False)) and words.goes_on in first
    assert told(begins=False) == first, "the same line each round, whatever the length of the turn"
    assert words.begins in told(begins=True)
    assert len(words.goes_on) < 100


@pytest.mark.promise("G6")
def test_a_mode_that_begins_in_the_middle_of_a_turn_is_told_whole_and_its_end_once():
    told = Told(Role.LEAD, known=Mode.DEFAULT)
    assert told(begins=True) == told(begins=False) == ""
    told.mode = Mode.DELEGATE
    assert WORDS[Role.LEAD, Mode.DELEGATE].begins in told(begins=False)
    told.mode = Mode.ACCEPT_EDITS
    over = told(begins=False)
    assert WORDS[Role.LEAD, Mode.DELEGATE].over in over
    assert news_of(Mode.ACCEPT_EDITS) in over
    assert told(begins=False) == told(begins=True) == ""


def test_whose_changes_are_told_by_mail_is_only_reminded():
    told = Told(Role.MEMBER, known=Mode.DEFAULT, news=False)
    told.mode = Mode.DONT_ASK
    assert told(begins=True) == ""
    told.mode = Mode.PLAN
    assert "change nothing" in told(begins=False)
    told.mode = Mode.DEFAULT
    assert told(begins=False) == ""


def test_the_leads_own_words_of_delegating_are_for_nobody_else():
    assert Told(Role.MEMBER, Mode.DELEGATE, known=Mode.DELEGATE)(begins=True) == ""


def test_whose_conversation_knows_no_mode_is_told_it_once():
    told = Told(Role.LEAD, Mode.DEFAULT, known=None)
    assert news_of(Mode.DEFAULT) in told(begins=True)
    assert told(begins=True) == ""
