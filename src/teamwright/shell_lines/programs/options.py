"""The arguments of one program, parsed as getopt does by a grammar that names every accepted option.

The grammars of all programs that only read are one text below. An option is listed only if it is harmless on every
system: in GNU, BSD and busybox programs of that name. Left out is what writes, runs, follows links on the way, or reads
a list of names. Depends on nothing but words.

A grammar is `OPERANDS option option …`. OPERANDS is `FILES` (all are read), `DIRS` (the same, by default the current
directory), `PATTERN` (a text, then files), `TEXTS` or `NONE`; `<N` after it bounds their number. An option is spelled
exactly, and its sign says which value it takes:

    -q  --quiet   no value
    -n= --lines=  a text: the next word, or attached
    -n=N          the same, and only a number
    -r=FILE       a file that is read
    -o=?          a text that another system takes for an operand, so it is judged as a file too
    --context:=   a text that must be attached, because systems disagree about the next word
    --color[=]    a text that may be attached
    --arg=2       two texts, which are the next two words
    -NUM          a number alone, as in `head -20`
    WORDS         no clusters and no attached values: `-pl` is not `-p -l`
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct

from teamwright.shell_lines.command_words import parse_rows

_OPTION = re.compile(r"(?P<name>--?[^=:\[]+)(?P<sign>\[=\]|:=|=)?(?P<kind>FILE|N|2|\?)?")
_OPERANDS = re.compile(r"(?P<kind>[A-Z]+)(?:<(?P<most>\d+))?")
_NUMBER = re.compile(r"[-+]?\d+[a-zA-Z]{0,2}")
_AFTER_OPTION = re.compile(r"-\d*")
"""Values that no program takes for an option. Any other value with a dash must be attached."""

_UNLIMITED = 10_000


class OptionValue(Struct, frozen=True):
    """The value of an option.

    `sign` is the grammar's `=`, `:=` or `[=]`; `kind` is FILE, N, 2, ? or empty for a text.
    """

    sign: str = ""
    kind: str = ""


class OptionGrammar(Struct, frozen=True):
    """All options of one program, and its operands. `max_operands` limits their number."""

    operands: str
    max_operands: int
    options: Mapping[str, OptionValue]
    numbers: bool = False
    words: bool = False

    @property
    def is_ordered(self) -> bool:
        """True when the position of an operand matters, so that no option may follow an operand."""
        return self.max_operands < _UNLIMITED


class ParsedArguments(Struct, frozen=True):
    """The parsed arguments. `options` are names with their values, in order.

    `files` are read besides the operands: values of options, and words that are operands on systems whose options end
    at the first operand. `is_mixed`: there are such words.
    """

    options: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    files: tuple[str, ...] = ()
    is_mixed: bool = False

    def has(self, *names: str) -> bool:
        """Return True when one of the options was given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        """Return the values of these options, in order."""
        return [value for name, value in self.options if name in names]


@cache
def parse_grammar(text: str) -> OptionGrammar:
    """Parse the grammar of a program. Raises ValueError for an option that the notation does not explain."""
    first, *rest = text.split()
    operands = _OPERANDS.fullmatch(first)
    if operands is None:
        raise ValueError(f"no operands in {text!r}")
    flags = {"-NUM", "WORDS"} & set(rest)
    options: dict[str, OptionValue] = {}
    for word in rest:
        if word not in flags:
            option = _OPTION.fullmatch(word)
            if option is None or option["name"] in options:
                raise ValueError(f"the option {word!r} is not explained")
            options[option["name"]] = OptionValue(option["sign"] or "", option["kind"] or "")
    most = int(operands["most"] or _UNLIMITED)
    return OptionGrammar(operands["kind"], most, options, "-NUM" in flags, "WORDS" in flags)


def parse_arguments(args: Sequence[str], grammar: OptionGrammar) -> ParsedArguments | None:
    """Parse the arguments of a program, or return None when one of them is not explained by the grammar.

    Options may follow operands, as in GNU programs. Systems whose options end at the first operand take such words
    for operands, so they are listed as files too, or refused where the number of operands is bounded.
    """
    reader = _Reader(list(args), grammar)
    while reader.at < len(reader.args):
        if not reader.step():
            return None
    if len(reader.operands) > grammar.max_operands:
        return None
    return ParsedArguments(
        tuple(reader.options), tuple(reader.operands), tuple(dict.fromkeys(reader.files)), reader.mixed
    )


class _Reader:
    """One pass over the arguments."""

    def __init__(self, args: list[str], by: OptionGrammar) -> None:
        self.args = args
        self.by = by
        self.at = 0
        self.options: list[tuple[str, str]] = []
        self.operands: list[str] = []
        self.files: list[str] = []
        self.after = False  # True after an operand
        self.mixed = False

    def step(self) -> bool:
        """Parse the next word with its values; return False when it is not explained."""
        word = self.args[self.at]
        self.at += 1
        start = self.at - 1
        if word == "--":
            self.operands += self.args[self.at :]
            self.at = len(self.args)
        elif not word.startswith("-") or word == "-":
            self.operands.append(word)
            self.after = True
            return True
        elif not self.option(word):
            return False
        if self.after:
            self.mixed = True
            self.files += self.args[start : self.at]
        return not self.mixed or not self.by.is_ordered

    def option(self, word: str) -> bool:
        if self.by.numbers and word[1:].isdecimal():
            self.options.append(("-NUM", word[1:]))
            return True
        if self.by.words:
            return self.valued(word, None)
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            return self.valued(name, value if equals else None)
        for at, letter in enumerate(word[1:], 2):
            name = f"-{letter}"
            rest = word[at:]
            found = self.by.options.get(name)
            if found is None:
                return False
            if found.sign:
                return self.valued(name, rest or None)
            self.options.append((name, ""))
        return True

    def valued(self, name: str, value: str | None) -> bool:
        """Add an option with the value that is attached to it, or with the next words."""
        found = self.by.options.get(name)
        if found is None or (value is not None and not found.sign):
            return False
        if value is None and found.sign == "=":
            for _ in range(2 if found.kind == "2" else 1):
                if self.at == len(self.args):
                    return False
                value = self.args[self.at]
                self.at += 1
                if value.startswith("-") and not _AFTER_OPTION.fullmatch(value):
                    return False
        elif value is None and found.sign == ":=":
            return False
        if value is not None and found.kind in {"FILE", "?"}:
            if value.startswith("~"):
                return False  # bash replaces a tilde only at the start of a word
            self.files.append(value)
        self.options.append((name, value or ""))
        return found.kind != "N" or _NUMBER.fullmatch(value or "") is not None


PROGRAMS = parse_rows("""
arch        NONE
base64      FILES<1 -d -D -w= --decode --wrap=
basename    TEXTS -a -s= -z --multiple --suffix= --zero
cat         FILES -A -b -e -E -n -s -t -T -u -v
            --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting
cksum       FILES
cmp         FILES<2 -b -l -s -i=? -n=? --print-bytes --verbose --quiet --silent --bytes:= --ignore-initial:=
column      FILES -c=? -o=? -s= -t -x --columns:= --separator:= --output-separator:= --table --fillrows
comm        FILES<2 -1 -2 -3 -z --check-order --nocheck-order --output-delimiter:= --total --zero-terminated
cut         FILES -b= -c= -d= -f= -n -s -z
            --bytes= --characters= --complement --delimiter= --fields= --only-delimited --output-delimiter=
            --zero-terminated
df          FILES -a -B=? -h -H -i -k -l -P -t=? -T -x=? --all --block-size= --human-readable --si --inodes --local
            --output[=] --portability --print-type --total --type= --exclude-type=
diff        FILES<2 -a -b -B -c -C= -d -e -E -i -I= -n -p -q -s -t -T -u -U= -w -W= -y -Z
            --brief --color[=] --context[=] --ed --expand-tabs --ignore-all-space --ignore-blank-lines --ignore-case
            --ignore-matching-lines:= --ignore-space-change --ignore-tab-expansion --ignore-trailing-space --initial-tab
            --label:= --left-column --minimal --normal --rcs --report-identical-files --show-c-function --side-by-side
            --speed-large-files --strip-trailing-cr --suppress-blank-empty --suppress-common-lines --tabsize:= --text
            --unified[=] --width:=
dirname     TEXTS -z --zero
du          DIRS -0 -a -b -B=? -c -d= -D -h -H -k -l -m -P -s -S -t=? -x
            --all --apparent-size --block-size:= --bytes --count-links --dereference-args --exclude:= --human-readable
            --inodes --max-depth= --no-dereference --null --one-file-system --separate-dirs --si --summarize
            --threshold:= --time[=] --time-style:= --total
expand      FILES -i -t= --initial --tabs=
file        FILES -0 -b -h -i -I -k -L -n -N -r -F=
            --brief --dereference --keep-going --mime --mime-encoding --mime-type --no-buffer --no-dereference --no-pad
            --print0 --raw --separator=
fold        FILES -b -s -w= --bytes --spaces --width=
free        NONE -b -g -h -k -l -m -t -w --bytes --giga --gibi --human --kibi --kilo --lohi --mebi --mega --si --total
            --wide
grep        PATTERN -NUM -a -A= -b -B= -c -C= -d= -D= -e= -E -F -G -h -H -i -I -l -L -m= -n -o -P -q -r -s -T -U -v -w
            -x -y -z -Z --after-context= --basic-regexp --before-context= --binary --binary-files= --byte-offset
            --color[=] --colour[=] --context:= --count --devices= --directories= --exclude= --exclude-dir=
            --extended-regexp --files-with-matches --files-without-match --fixed-strings --ignore-case --include=
            --initial-tab --invert-match --label= --line-buffered --line-number --line-regexp --max-count=
            --no-filename --no-ignore-case --no-messages --null --null-data --only-matching --perl-regexp --quiet
            --recursive --regexp= --silent --text --with-filename --word-regexp
groups      TEXTS
head        FILES -NUM -c= -n= -q -v -z --bytes= --lines= --quiet --silent --verbose --zero-terminated
hexdump     FILES -b -c -C -d -e= -n= -o -s= -v -x
            --canonical --length:= --no-squeezing --one-byte-char --one-byte-octal --skip:= --two-bytes-decimal
            --two-bytes-hex --two-bytes-octal
id          TEXTS -g -G -n -r -u -z --group --groups --name --real --user --zero
ls          DIRS -1 -a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x -X
            -Z --all --almost-all --author --block-size:= --classify[=] --color[=] --context
            --dereference-command-line --dereference-command-line-symlink-to-dir --directory --escape --file-type
            --format:= --full-time --group-directories-first --hide:= --hide-control-chars --human-readable
            --ignore:= --ignore-backups --indicator-style:= --inode --kibibytes --literal --no-group
            --numeric-uid-gid --quote-name --quoting-style:= --recursive --reverse --show-control-chars --si --size
            --sort:= --time:= --time-style:= --width:= --zero
md5sum      FILES -b -t -z --binary --tag --text --zero
nl          FILES -b= -d= -f= -h= -i= -l= -n= -p -s= -v= -w=
            --body-numbering= --footer-numbering= --header-numbering= --join-blank-lines= --line-increment=
            --no-renumber --number-format= --number-separator= --number-width= --section-delimiter=
            --starting-line-number=
nproc       NONE --all --ignore:=
od          FILES -a -A= -b -c -d -f -i -j= -l -N= -o -s -t= -v -x
            --address-radix:= --format:= --output-duplicates --read-bytes:= --skip-bytes:= --width:=
paste       FILES -d= -s -z --delimiters= --serial --zero-terminated
pwd         NONE -L -P
readlink    FILES -e -f -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing --no-newline
            --quiet --silent --verbose --zero
realpath    FILES -e -L -m -P -q -s -z
            --canonicalize-existing --canonicalize-missing --logical --no-symlinks --physical --quiet
            --relative-base:=FILE --relative-to:=FILE --strip --zero
rev         FILES
rg          PATTERN -. -0 -A= -a -b -B= -c -C= -d= -e= -E= -F -g= -H -i -I -j= -l -m= -M= -n -N -o -p -P -q -r= -s -S
            -t= -T= -u -U -v -w -x --after-context= --auto-hybrid-regex --before-context= --binary --byte-offset
            --case-sensitive --color= --colors= --column --context= --context-separator= --count --count-matches --crlf
            --encoding= --engine= --files --files-with-matches --files-without-match --fixed-strings --glob=
            --glob-case-insensitive --heading --hidden --iglob= --ignore-case --include-zero --invert-match --json
            --line-buffered --line-number --line-regexp --max-columns= --max-columns-preview --max-count= --max-depth=
            --max-filesize= --multiline --multiline-dotall --no-config --no-filename --no-heading --no-hidden
            --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages
            --no-ignore-parent --no-ignore-vcs --no-line-number --no-messages --no-unicode --null --null-data
            --one-file-system --only-matching --passthru --pcre2 --pretty --quiet --regexp= --replace= --smart-case
            --sort= --sortr= --stats --text --threads= --trim --type= --type-list --type-not= --unrestricted --vimgrep
            --with-filename --word-regexp
seq         TEXTS -NUM -f= -s= -w --equal-width --format= --separator=
shasum      FILES -a= -b -t -0 -1 -7
sleep       TEXTS
sort        FILES -b -c -C -d -f -g -h -i -k= -m -M -n -r -R -s -t= -u -V -z
            --check[=] --debug --dictionary-order --field-separator= --general-numeric-sort --human-numeric-sort
            --ignore-case --ignore-leading-blanks --ignore-nonprinting --key= --merge --month-sort --numeric-sort
            --parallel:= --random-sort --reverse --sort:= --stable --unique --version-sort --zero-terminated
stat        FILES -c= -L --dereference --format= --printf=
strings     FILES -a -n= -o -t= --all --bytes:= --radix:=
tac         FILES -b -r -s= --before --regex --separator=
tail        FILES -NUM -c= -n= -q -r -v -z --bytes= --lines= --quiet --silent --verbose --zero-terminated
tr          TEXTS -c -C -d -s -t -u --complement --delete --squeeze-repeats --truncate-set1
tree        DIRS -a -A -c -d -D -f -F -g -h -i -I= -J -L= -n -N -p -P= -q -r -s -S -t -u -U -v -x -X --charset=
            --device --dirsfirst --du --filelimit= --filesfirst --ignore-case --inodes --matchdirs --noreport --prune
            --si --sort[=] --timefmt=
tty         NONE -s
uname       NONE -a -i -m -n -o -p -r -s -v --all --hardware-platform --kernel-name --kernel-release --kernel-version
            --machine --nodename --operating-system --processor
unexpand    FILES -a -t= --all --first-only --tabs=
uniq        FILES<1 -c -d -D -f= -i -s= -u -w= -z
            --all-repeated[=] --check-chars= --count --group[=] --ignore-case --repeated --skip-chars= --skip-fields=
            --unique --zero-terminated
uptime      NONE -p -s --pretty --since
wc          FILES -c -l -L -m -w --bytes --chars --lines --max-line-length --words
which       TEXTS -a
whoami      NONE
xxd         FILES<1 WORDS -a -b -c=N -C -e -g=N -i -l=N -p -ps -s=N -u
""")
"""The grammar of each program that only reads."""

_SAME = {
    "egrep": "grep",
    "fgrep": "grep",
    "hd": "hexdump",
    "sha1sum": "md5sum",
    "sha224sum": "md5sum",
    "sha256sum": "md5sum",
    "sha384sum": "md5sum",
    "sha512sum": "md5sum",
    "b2sum": "md5sum",
}


@cache
def program_grammar(name: str) -> OptionGrammar | None:
    """Return the grammar of a program, or None for a program that is not in the table."""
    text = PROGRAMS.get(_SAME.get(name, name))
    return None if text is None else parse_grammar(text)
