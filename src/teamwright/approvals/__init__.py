"""Pending requests: the approvers, the files of requests and the effect of an answer.

Depends on the request files of `requests`. The user interfaces show the requests.
"""
