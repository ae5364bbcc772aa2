"""Processes of this machine: commands run as groups, others watched as one life, families found and ended, records of both."""
