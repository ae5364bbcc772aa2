"""Mail: inbox files, sending, unread quotas and the repair of damaged inboxes.

Depends on storage. Leaves conversations and wake-ups to `teams`.
"""
