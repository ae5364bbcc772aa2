"""Mail: inbox files, requests that are answered once, and the salvage of damaged files.

Mechanism without policy: knows `protocol` and `storage`; who may write to whom is the roster's business, above.
"""
