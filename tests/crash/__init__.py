import os

# Off unless `make crash SANDBOX=required` (or `auto`) says otherwise: kills are what is tested, and a start is faster.
os.environ.setdefault("TEAMWRIGHT_SANDBOX", "off")
