import os

# Commands of the members write evidence outside of the session's directories, which the sandbox forbids.
os.environ.setdefault("TEAMWRIGHT_SANDBOX", "off")
