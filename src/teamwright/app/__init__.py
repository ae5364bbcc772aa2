"""Assembly: settings, trust, sessions, teams; the only place where ports are filled.

Knows everything below. Does not know a screen: faces are told what happens through events and inspect what is.
"""
