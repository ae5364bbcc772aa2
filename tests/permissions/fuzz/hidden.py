"""Lines in which a comment, quotes or an escape hold a command, and what could set it free.

Used by the generator: a parser that misreads one character of them lets the command run.
"""

from __future__ import annotations

HIDDEN = (
    "ls # ; touch MARK",
    "echo 'x; touch MARK'",
    'echo "x; touch MARK"',
    "echo x\\; touch MARK",
    "echo \\$(touch MARK)",
    "echo '$(touch MARK)'",
    'echo "\\$(touch MARK)"',
    "ls #\ttouch MARK",
    "cat <<'E'\n$(touch MARK)\nE",
    "cat <<E\ntouch MARK\nE",
    "cat <<E\nx\nE\necho 'E\ntouch MARK\n'",
    "cat <<-E\n\ttouch MARK\n\tE",
    ": \\`touch MARK\\`",
    "echo x# $(true) # `touch MARK`",
    "ls < a.py # > MARK",
    "echo {a,b} '> MARK'",
    "echo \\> MARK",
    "x='touch MARK'; echo \"$x\"",
    "[[ a == 'b; touch MARK' ]]",
    "case x in 'a) touch MARK') ls;; esac",
    "for i in a 'do touch MARK'; do echo $i; done",
    "echo $((1+2)) '$((' touch MARK",
    "echo x |cat # ;touch MARK",
    "ls\n# touch MARK\nls",
    "echo a\\\nb touch MARK",
    "true <<< 'touch MARK'",
    "echo ${x:-touch MARK}",
    "echo \"${x:-'touch MARK'}\"",
    "echo ' # '; ls # touch MARK",
    "grep -n 'x; touch MARK' a.py",
    "awk '{print \"touch MARK\"}' a.py",
    "sed -n 's/a/touch MARK/p' a.py",
    "echo \"$(echo ')' ; echo 'touch MARK')\"",
    "! true # touch MARK",
    "cat a.py 2>&1 # touch MARK",
    "echo 'a'\"b\"\\'c touch MARK",
    'echo $"x; touch MARK"',
    "echo $'x\\n; touch MARK'",
    "if true; then ls # touch MARK\nfi",
    "(ls # touch MARK\n)",
    "{ ls # touch MARK\n}",
    "x=$(ls # touch MARK\n)",
    'echo "`ls # touch MARK\n`"',
    "ls;# touch MARK",
    "ls&# touch MARK",
    "[ -f a.py ] # touch MARK",
    "echo [ # touch MARK",
    "x=1 # touch MARK",
    "echo a=( 'touch MARK' )",
    "echo x 1>&2 # touch MARK",
    "a=b#c ls",
    "ls <a.py\necho touch MARK",
    "x=1\necho touch MARK",
    "cat <<< x\necho touch MARK",
    "ls 2>/dev/null\necho touch MARK",
    "echo a |\necho touch MARK",
    "echo x \\\n touch MARK",
    'echo "中\\"; touch MARK; #"',
    "echo '中`'; echo '`touch MARK`'",
)
"""Lines that are harmless as they are."""

MARKING = ("touch MARK", "touch_marker", "cat .env", "cat ../above", "> MARK", "cat ~/.ssh/id_rsa")
"""Commands that leave a mark or show a secret."""

SPECIAL = " \t\n\r\v\f\\\\\\\\'\"`$#;&|<>(){}[]*?~!=^%@+-,.:/0\u00a0\u2028\x01\x7f"
"""Characters that a shell, or a parser of its language, may treat in its own way."""

ESCAPES = (
    *("\\", "\\ ", "\\ ", "\\ ", "\\\t", "\\\n", "\\\\", "\\'", '\\"', "\\#", "\\;", "", "'", '"', " ", "\n", "\t"),
    *("#", "`", "$(", ")", "$'", "<<E\n", "\nE\n", "\\\\\n", " \\", "\\\r", "\\$", "\\`", "\\(", "\\<", "\\>", "\\&"),
)
"""What may change the meaning of the character after it."""

ASSIGNMENTS = r"""
GIT_DIR=emb
GIT_PAGER=touch_marker
PAGER=touch_marker
GIT_EXTERNAL_DIFF=touch_marker
HOME=..
PATH=.
BASH_ENV=run.sh
ENV=run.sh
LESSOPEN='|touch_marker'
TAR_OPTIONS=--to-command=touch_marker
IFS=a
A=1
RIPGREP_CONFIG_PATH=names
POSIXLY_CORRECT=1
TMPDIR=..
CDPATH=..
GREP_OPTIONS=-R
LC_ALL=C
LC_ALL=zh_CN.GBK
LANG=zh_CN.GBK;
LC_CTYPE=zh_CN.GBK
DEBUG='$(touch_marker)'
LINES='a[$(touch_marker)]'
TZ=../above
GIT_CONFIG_GLOBAL=vendor/.git/config
GIT_WORK_TREE=..
GIT_TRACE=../MARK
GIT_SSH_COMMAND=touch_marker
x=..
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=touch_marker
PS4='$(touch_marker)'
x=/*
GIT_CONFIG_PARAMETERS="'core.fsmonitor=touch_marker'"
AWKPATH=..
BLOCK_SIZE=1
COLUMNS=20
MAGIC=names
GIT_OBJECT_DIRECTORY=..
GIT_INDEX_FILE=MARK
LD_PRELOAD=./x.so
PYTHONPATH=.
NODE_OPTIONS=-r./x
f=.env
GZIP=-d
LS_COLORS=*.py=1
TREE_COLORS=1
QUOTING_STYLE=shell
TIME_STYLE=+%s
JQ_COLORS=1
x='$(touch MARK)'
PROMPT_COMMAND=touch_marker
OLDPWD=..
PWD=/
SHELLOPTS=xtrace
BASHOPTS=extglob
GLOBIGNORE=x
x=~
""".strip().splitlines()
"""Variables that change what programs do, and some that are used later in the line."""
