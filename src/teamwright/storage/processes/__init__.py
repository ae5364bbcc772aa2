"""Processes of this machine: commands run as groups, others watched as one life, families ended, records of both."""
