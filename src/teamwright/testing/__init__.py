"""Shipped fakes: a loopback model server, a scripted model, a team in a temporary home.

Imported by no room of ours; users test their own teams with it.
"""
