"""Requests as files: what waits for an answer in any process of the user, and how another process answers it.

`open_requests` and `answer_request` are all that a face needs. Below it: request boxes, leases, bells. Refuses to
know who asks in this process: that is the queue's business (`app.asking`).
"""

from teamwright.app.requests.answering import Outcome, answer_request
from teamwright.app.requests.looking import find_request, open_requests
from teamwright.app.requests.record import OpenRequest

__all__ = ["OpenRequest", "Outcome", "answer_request", "find_request", "open_requests"]
