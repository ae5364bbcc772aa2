"""What a model is told of a message of the protocol: the one place that asks all who have words for one.

Knows who has words; has none itself.
"""

from __future__ import annotations

from teamwright.protocol.envelope import RuntimeTags
from teamwright.protocol.mail import Entry
from teamwright.teams.plans.shown import plan_words
from teamwright.teams.shown.notices import notice_words
from teamwright.teams.shown.permits import permission_words
from teamwright.teams.team import Team


def words_of(team: Team, reader: str, entry: Entry, tags: RuntimeTags) -> str | None:
    """Plain words for the entry, as this reader's model is told it; None: it is told as it stands."""
    if not entry.text.startswith("{"):
        return None
    about_plans = plan_words(team, reader, entry, tags)
    return about_plans or permission_words(team, reader, entry, tags) or notice_words(reader, entry, tags)
