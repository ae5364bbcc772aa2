import pytest

from teamwright.agent.plan_mode import MODE_MEANINGS, REMINDERS, ModeReminder, ReminderRole, mode_notice
from teamwright.permissions.verdict import Mode


class Told:
    """The mode of an agent, and what it is reminded of."""

    def __init__(
        self, role: ReminderRole, mode: Mode = Mode.DEFAULT, *, known: Mode | None = None, news: bool = True
    ) -> None:
        self.mode = mode
        self.remind = ModeReminder(lambda: self.mode, role, known, announces=news)

    def __call__(self, *, begins: bool) -> str:
        return self.remind(begins)


def test_every_mode_has_a_line_of_meaning():
    assert set(MODE_MEANINGS) == set(Mode)
    assert all(len(line) < 80 and not line.endswith(".") for line in MODE_MEANINGS.values())


@pytest.mark.promise("G6")
def test_a_turn_begins_with_the_whole_reminder_and_each_round_has_a_short_one():
    told = Told(ReminderRole.LEAD, Mode.DELEGATE, known=Mode.DELEGATE)
    words = REMINDERS[ReminderRole.LEAD, Mode.DELEGATE]
    assert words.at_start in told(begins=True)
    assert words.at_start not in (first := told(begins=False)) and words.each_call in first
    assert told(begins=False) == first, "the same line each round, whatever the length of the turn"
    assert words.at_start in told(begins=True)
    assert len(words.each_call) < 100


@pytest.mark.promise("G6")
def test_a_mode_that_begins_in_the_middle_of_a_turn_is_told_whole_and_its_end_once():
    told = Told(ReminderRole.LEAD, known=Mode.DEFAULT)
    assert told(begins=True) == told(begins=False) == ""
    told.mode = Mode.DELEGATE
    assert REMINDERS[ReminderRole.LEAD, Mode.DELEGATE].at_start in told(begins=False)
    told.mode = Mode.ACCEPT_EDITS
    over = told(begins=False)
    assert REMINDERS[ReminderRole.LEAD, Mode.DELEGATE].at_end in over
    assert mode_notice(Mode.ACCEPT_EDITS) in over
    assert told(begins=False) == told(begins=True) == ""


def test_whose_changes_are_told_by_mail_is_only_reminded():
    told = Told(ReminderRole.MEMBER, known=Mode.DEFAULT, news=False)
    told.mode = Mode.DONT_ASK
    assert told(begins=True) == ""
    told.mode = Mode.PLAN
    assert "change nothing" in told(begins=False)
    told.mode = Mode.DEFAULT
    assert told(begins=False) == ""


def test_the_leads_own_words_of_delegating_are_for_nobody_else():
    assert Told(ReminderRole.MEMBER, Mode.DELEGATE, known=Mode.DELEGATE)(begins=True) == ""


def test_whose_conversation_knows_no_mode_is_told_it_once():
    told = Told(ReminderRole.LEAD, Mode.DEFAULT, known=None)
    assert mode_notice(Mode.DEFAULT) in told(begins=True)
    assert told(begins=True) == ""
