"""Pending requests: the approvers, the files of requests and the effect of an answer.

Depends on the request files of `requests`. The user interfaces show the requests.
"""

from teamwright.approvals.answer_from_outside import AnswerOutcome, answer_request, answerable_requests
from teamwright.approvals.request_files import match_requests, open_requests

__all__ = ["AnswerOutcome", "answer_request", "answerable_requests", "match_requests", "open_requests"]
