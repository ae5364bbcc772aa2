"""The grammars of all programs that only read, as one text: which options are accepted and what the operands are.

The notation is that of `options`. An option is listed only if it is harmless on every system: in GNU, BSD and
busybox programs of that name. Left out is what writes, runs, follows links on the way, or reads a list of names.
"""

from __future__ import annotations

from functools import cache

from teamwright.permissions.command_words import parse_rows
from teamwright.permissions.programs.option_grammar import OptionGrammar, parse_grammar

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
