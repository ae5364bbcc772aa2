"""A team: roster, lead, teammates, mailboxes, starting, resuming and shutting down of members.

Depends on agents. Leaves settings, trust and sessions to the packages above.
"""
