"""Pending requests: who may answer them, in which process, and what an answer changes.

Depends on the request files of `requests`. Leaves the screen to the user interfaces.
"""

from teamwright.approvals.answer_request import AnswerOutcome, answer_request
from teamwright.approvals.open_requests import match_requests, open_requests
from teamwright.approvals.request_record import OpenRequest

__all__ = ["AnswerOutcome", "OpenRequest", "answer_request", "match_requests", "open_requests"]
