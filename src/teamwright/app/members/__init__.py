"""Members in processes of their own: what the lead hands over and helps with, and what runs in such a process."""
