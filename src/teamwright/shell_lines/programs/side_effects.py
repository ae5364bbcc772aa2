"""Options by which a program writes, runs another program or leaves the directories, though its name does not say so.

Depends on words only. What a prefix rule makes of such an option is decided in `allow_rule_limits`.

A row is `PROGRAMS | OPTION OPTION …`. A key of two words is a program and its subcommand. An option is spelled so:

    --long    also with a value; also abbreviated, unless the row has EXACT; with NOPT after any number of dashes
    -x        also in a cluster, unless the row has WORDS; a cluster ends at a letter of VALUED=…, and at an equals sign
    -word     a whole word
    word      a subcommand, as `git config`
    @  +      any word that begins so
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from teamwright.shell_lines.command_words import Words, base_name, word_set

_TABLE = """
git | --config-env --exec-path --git-dir --work-tree --output --no-index --ext-diff --textconv --show-signature
    --filters --upload-pack --receive-pack --exec --open-files-in-pager --smtp-server --sendmail-cmd --unsafe-paths
    --separate-git-dir --export-marks --stdin-paths config filter-branch filter-repo daemon instaweb send-email
    imap-send web--browse remote-ext remote-fd shell merge-index maintenance credential credential-store
    credential-cache credential-netrc credential-libsecret credential-osxkeychain credential-manager
git grep | -O
git archive, git format-patch, git bugreport, git diagnose | -o --output-directory
git clone, git init | -u -c --config --template
git rebase | -x
git difftool, git mergetool | -x --extcmd -t --tool
find | WORDS -delete -fprint -fprint0 -fprintf -fls -files0-from -L -follow
fd, fdfind | -x -X --exec --exec-batch
sed | VALUED=el -i -I --in-place -f --file
awk, gawk, mawk, nawk | VALUED=Fv -f --file -i --include -l --load -E --exec -e --source -o --pretty-print -p
    --profile -d --dump-variables -D --debug
yq | VALUED=opIP -i --inplace --in-place -s --split-exp --split-exp-file -f --from-file -L
jq | -f --from-file -L --library-path
wc, du | --files0-from
md5sum, sha1sum, sha224sum, sha256sum, sha384sum, sha512sum, b2sum, cksum, shasum | VALUED=la -c --check
strings | @
sort | VALUED=ktS -o --output -T --temporary-directory --compress-program --files0-from --random-source
shuf | VALUED=inr -o --output --random-source
tree | VALUED=LPI -o --output --fromfile -R -l
rg | VALUED=ABCdeEfgjmMrtT --pre --hostname-bin -z --search-zip -L --follow
grep, egrep, fgrep | VALUED=ABCDdefm -R --dereference-recursive
diff | VALUED=CFIUWxXS -r --recursive
cp | VALUED=tS -L --dereference -H
ag, ack | --pager --ackrc
date | VALUED=drI -s --set -f --file
file | -C --compile -m --magic-file -f --files-from -z -Z --uncompress
split | --filter
diff3, sdiff | -o --output --diff-program
tar | VALUED=bfgHKLNTVX -I --use-compress-program -F --info-script --new-volume-script --to-command
    --checkpoint-action --rmt-command --rsh-command -P --absolute-names --remove-files -T --files-from --index-file -h
    --dereference
zip | -T --test --unzip-command -m --move -@ --names-stdin
rsync | VALUED=TBM -e --rsh --rsync-path --daemon --config --log-file --remove-source-files -f --filter -L --copy-links
    --copy-unsafe-links -k --copy-dirlinks -K --keep-dirlinks --early-input
install | VALUED=gmotS --strip-program
ls | VALUED=ITw -L --dereference
ssh, scp, sftp | VALUED=bBcilmOpPQX -o -F -E -S -I -L -R -D -W -J -w
curl | -n --netrc --netrc-optional --proto-default VALUED=AbCdeFhHmPQrtuUwxXyYzE -o --output -O --remote-name
    --remote-name-all -J --remote-header-name --output-dir -D --dump-header -c --cookie-jar -K --config -T
    --upload-file --trace --trace-ascii --stderr --libcurl --variable --etag-save --hsts --alt-svc --unix-socket
    --abstract-unix-socket --engine --ssl-sessions
wget | VALUED=tTwQBDIARlU -O --output-document -o --output-file -a --append-output -P --directory-prefix -i
    --input-file -e --execute --config --use-askpass --post-file --body-file --save-cookies --load-cookies --warc-file
    --rejected-log
make, gmake | VALUED=CIjloW -f --file --makefile --eval -E -I --include-dir
ninja | VALUED=jkl -f -t -C
cmake | VALUED=GSBTA -P -E -C -D --toolchain --graphviz --trace-redirect
ctest | -S --script --script-new -T -M -D -A --add-notes --extra-submit --overwrite --test-dir --preset
    --resource-spec-file --build-generator --build-config-sample --build-and-test --test-command --build-makeprogram
    -O --output-log --output-junit
just | -f --justfile --shell --shell-arg --shell-command --set -c --command --chooser -e --edit --init --fmt
    --dotenv-path --dotenv-filename --tempdir
task | -t --taskfile
rake | -f --rakefile -r --require -e --execute -E --execute-continue -p --execute-print -I --libdir -R --rakelibdir
composer | EXACT -d --working-dir --ignore-platform-reqs config global exec
npm | NOPT VALUED=w -C --prefix -c --call -g --global --location --script-shell --shell --node-options --userconfig
    --globalconfig --git --editor --viewer --node-gyp --onload-script --init-module --cache --tmp --logs-dir
    --pack-destination --registry exec x explore config set
node | EXACT -r --require --import --loader --experimental-loader -e --eval -p --print --env-file --env-file-if-exists
    --test-reporter --test-reporter-destination --test-global-setup --inspect --inspect-brk --inspect-wait
    --inspect-port --cpu-prof --heap-prof --prof --redirect-warnings --diagnostic-dir --report-dir --report-directory
    --report-filename --trace-event-file-pattern --tls-keylog --openssl-config --icu-data-dir --snapshot-blob
    --build-snapshot --experimental-config-file --experimental-default-config-file --experimental-sea-config --run
deno | EXACT -A --allow-all --allow-run --allow-read --allow-write --allow-net --allow-env --allow-ffi --allow-sys -c
    --config --import-map --preload --env-file --coverage --junit-path --inspect --inspect-brk --inspect-wait
pnpm | NOPT VALUED=F -C --dir -c --shell-mode -g --global --script-shell --shell-emulator --node-options --config
    --store-dir --modules-dir --global-dir --registry exec dlx config
yarn | --cwd --script-shell --use-yarnrc --modules-folder --global-folder --cache-folder --registry exec dlx config
bun | EXACT --cwd -r --preload --require -c --config --env-file -e --eval -p --print --outdir --outfile
    --reporter-outfile --coverage-dir --inspect --inspect-brk --inspect-wait x
pip, pip3 | VALUED=ricfe -t --target --prefix --root --src --log --python --cache-dir --report -C --config-settings
    --global-option --build-option
uv | EXACT --directory --project --config-file --env-file -p --python --cache-dir --target --prefix
poetry, pdm, hatch | -C --directory -P --project -p
go | WORDS -compiler -buildmode -mod -modcacherw -pgo -args -asan -installsuffix -exec -toolexec -vettool -overlay
    -modfile -o -C -ldflags -gcflags -asmflags -gccgoflags -pkgdir -test.coverprofile -test.cpuprofile
    -test.memprofile -test.blockprofile -test.mutexprofile -test.trace -test.outputdir -test.testlogfile
    -test.gocoverdir -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -outputdir -fuzzcachedir
cargo | EXACT VALUED=pFj --config -Z --target-dir --artifact-dir --out-dir --root -C --fix
rustc | WORDS -o -C --codegen -Z --out-dir --emit --sysroot
pytest, py.test | EXACT VALUED=kmnr @ --resultlog --pastebin -W --pythonwarnings -p -c --config-file --rootdir -o
    --override-ini --basetemp --junitxml --junit-xml --log-file --debug --pdbcls --cov-report --cov-config
    --import-mode --confcutdir --report-log --html --json-report-file --tx --px --rsyncdir --benchmark-json
    --benchmark-save --benchmark-storage --alluredir --ds --dc
tox, nox | VALUED=em --root --runner --discover --default-venv-backend --force-venv-backend --force-python
    --extra-pythons -P exec e devenv d -c --conf -x --override --workdir --result-json --devenv --installpkg -f
    --noxfile --envdir --report
mypy, dmypy | @ --custom-typeshed-dir --package-root --timing-stats --line-checking-stats --sqlite-cache --config-file
    --python-executable --install-types --junit-xml --cache-dir --any-exprs-report --html-report
    --cobertura-xml-report --linecount-report --linecoverage-report --lineprecision-report --txt-report --xml-report
    --xslt-html-report --xslt-txt-report --shadow-file --custom-typing-module
pyright | EXACT -t -v --pythonpath --createstub --typeshedpath --venvpath --venv-path --typeshed-path --writebaseline
    --baselinefile
ruff | EXACT VALUED=e --fix --fix-only --unsafe-fixes --add-noqa --config -o --output-file --cache-dir
black, isort | --config --settings-file
flake8 | --config --append-config --output-file --enable-extensions
pylint | --rcfile --load-plugins --init-hook --output --import-graph --ext-import-graph --int-import-graph
coverage | --rcfile --data-file -o -d --directory
eslint | EXACT --fix --fix-type --parser-options --rule --flag --suppress-all --suppress-rule --suppressions-location
    --prune-suppressions --inspect-config -c --config --rulesdir --parser --plugin --resolve-plugins-relative-to -o
    --output-file -f --format --cache-location --cache-file --init
prettier | EXACT -w --write --parser --config-path --plugin --config --cache-location --plugin-search-dir
tsc | EXACT @ --plugins --outdir --outfile --declarationdir --tsbuildinfofile --generatetrace --generatecpuprofile -b
    --build --init
jest | EXACT VALUED=twi -u --updatesnapshot --ci --init --snapshotserializers --snapshotresolver --globals
    --moduledirectories --modulepaths --dependencyextractor --runtime --moduleloader --coveragereporters
    --coverageprovider --testenvironmentoptions --extensionstotreatasesm --hastemapmodulepath --haste-map-module-path
    --unmockedmodulepathpatterns --clearcache --workerthreads -c --config --globalsetup --globalteardown --setupfiles
    --setupfilesafterenv --testrunner --runner --reporters --transform --env --testenvironment --rootdir --roots
    --outputfile --coveragedirectory --resolver --testresultsprocessor --watchplugins --filter --haste
    --modulenamemapper --preset --projects --prettierpath --testsequencer --cachedirectory
vitest | EXACT VALUED=t -u --update --dir --configloader --standalone --coverage. --pooloptions --sequence.sequencer
    --snapshotserializers --snapshotenvironment --attachmentsdir --project --diff --environmentmatchglobs
    --environmentoptions --server --deps --outputfile --clearcache --experimental --typecheck. --cache --mergereports
    -c --config -r --root --environment --reporter --reporters --execargv --outputfile --pool --browser --globalsetup
    --typecheck --runner --workspace --api --ui --inspect --inspect-brk
mocha | EXACT VALUED=gts -f --file --opts --extension --watch-files -r --require -c --config -R --reporter -O
    --reporter-option -u --ui --import --loader --experimental-loader -n --node-option --package
rspec | VALUED=e --default-path --drb --init --failure-exit-code -r --require -I -O --options -o --out -f --format
phpunit | --bootstrap -c --configuration --extension -d --log-junit --log-teamcity --log-events-text --coverage-html
    --coverage-text --coverage-clover --coverage-php --coverage-xml --coverage-cobertura --coverage-crap4j
    --testdox-html --testdox-text --testdox-xml --prepend --printer --loader --cache-directory
ansible, ansible-playbook, ansible-console, ansible-pull | EXACT -e --extra-vars -i --inventory -M --module-path
    --playbook-dir --vault-password-file --vault-pass-file --vault-id --private-key --key-file --ssh-common-args
    --ssh-extra-args --sftp-extra-args --scp-extra-args -b --become --become-user --become-method
    --become-password-file -m --module-name -a --args --connection -c -u --user -t --tree
ansible-lint | EXACT -r --rules-dir -R -c --config-file --fix --write --project-dir --sarif-file --enable-list
rubocop, standardrb | EXACT -r --require -c --config -a -A --autocorrect --autocorrect-all --auto-correct
    --auto-correct-all --auto-gen-config -o --out --plugin -f --format --init --server --start-server --stdin
    --cache-root --regenerate-todo --fix --fix-unsafely
golangci-lint | EXACT -c --config --fix --out-format --output --path-prefix --custom
biome | EXACT --config-path --write --fix --apply --apply-unsafe --unsafe --suppress --reporter-file
swift | EXACT --toolchain -Xswiftc -Xcc -Xlinker -Xcxx --disable-sandbox --scratch-path --build-path --package-path
    --cache-path --config-path --security-path --xunit-output --allow-writing-to-directory
    --allow-writing-to-package-directory --allow-network-connections --triple --sdk --swift-sdk
zig | EXACT --build-file --build-runner --cache-dir --global-cache-dir --prefix -p --zig-lib-dir --search-prefix
sbt | WORDS -D -J -S --addPluginSbtFile -java-home -sbt-jar -sbt-boot -ivy
mix | EXACT -r --require --export-coverage --cover --formatter
phpstan | EXACT -a --autoload-file -c --configuration --generate-baseline --error-format --fix
stylelint | EXACT --config --config-basedir --custom-formatter --custom-syntax --formatter -f --fix -o --output-file
    --cache-location --plugins
playwright | EXACT -c --config --reporter --output --ui --ui-host --ui-port --debug --tsconfig -u --update-snapshots
webpack, rollup, vite | EXACT -c --config -r --require --import -p --plugin --outdir --out-dir --output-path -o --dir
    --file --configplugin --configloader -e --extends --config-name --external --host --open --manifest --ssr
esbuild | EXACT --outfile --outdir --outbase --metafile --serve --servedir --mangle-cache --tsconfig --allow-overwrite
    --inject --alias
turbo | EXACT --cwd --root-turbo-json --api --token --team --login --cache-dir --summarize --graph --profile --trace
    --env-mode
nx | EXACT --config --runner --outputpath --output-path --graph --file --executor
shellcheck | EXACT --rcfile -P --source-path -x --external-sources
yamllint | EXACT -c --config-file -d --config-data
pre-commit | EXACT -c --config
bazel, bazelisk | EXACT --run_under --bazelrc --action_env --host_action_env --test_env --sandbox_writable_path
    --spawn_strategy --strategy --output_base --output_user_root --shell_executable --test_wrapper
    --override_repository --override_module --registry --workspace_status_command --host_jvm_args --server_javabase
    --config
meson | EXACT -C --wrapper --setup --gdb-path --gdb --native-file --cross-file --destdir
mage | WORDS -d -w -gocmd -compile -init -clean
invoke, inv | EXACT -r --search-root -c --collection -f --config -s
docker, podman | EXACT WORDS --volume --mount --privileged --device --pid --ipc --uts --userns --net --network
    --cap-add --security-opt --volumes-from --cidfile --iidfile --output --secret --ssh -H --host --config --context
    --env-file --entrypoint --runtime
docker run, docker create, podman run, podman create | -v
docker build, podman build | -o
kubectl | EXACT WORDS --kubeconfig -s --server --as --as-group --as-uid --token --client-certificate --client-key
    --certificate-authority --cluster --user --context --cache-dir --profile-output
helm | EXACT -f --values --set-file --output-dir --repository-config --repository-cache --registry-config --ca-file
    --cert-file --key-file --keyring --repo --dependency-update --post-renderer-args --kube-as-user --kube-as-group
    --kube-ca-file --insecure-skip-tls-verify --plain-http --username --password --kubeconfig --kube-context
    --post-renderer --kube-apiserver --kube-token
gh api | VALUED=Hpqt -X --method -f --raw-field -F --field --input
terraform, tofu | WORDS -chdir -out -state -state-out -backup -plugin-dir -destroy -auto-approve
mvn, mvnw | WORDS -f --file -P --activate-profiles -pl --builder -gt --global-toolchains -ep --encrypt-password
    --encrypt-master-password -s --settings -gs --global-settings -t --toolchains -D --define -l --log-file
gradle, gradlew | WORDS -p --project-dir --scan --profile --write-verification-metadata --export-keys --write-locks
    --update-locks -M -F -b --build-file -I --init-script -c --settings-file -g --gradle-user-home -D --system-prop -P
    --project-prop --include-build --project-cache-dir
dotnet | EXACT WORDS @ -property -l -logger -fl -fileLogger -flp -bl -binaryLogger -dl -t -target -a -e --environment
    -r -d --diag --collect --source --artifacts-path --blame-hang-dump-type --blame-crash-collect-always
    --test-modules --config-file --coverage-output --report-trx-filename -getProperty -p --property -o --output -s
    --settings --test-adapter-path --logger --results-directory --configfile
bundle | --gemfile --path
openssl | WORDS -out -engine -provider -provider-path -config -writerand -keyout
gpg | -o --output --options --homedir --exec-path --agent-program
less, more | + -o -O --log-file -k --lesskey-file --lesskey-src --lesskey-content -T --tag-file --cmd
bat, batcat | --pager --paging --config-file --config-dir
javac | WORDS @ -processor -processorpath --processor-path --processor-module-path -Xplugin -J
vi, vim, nvim, view | + -c --cmd -S -s -u -W -w
man | -P --pager -H --html -X --gxditview -C --config-file
gcc, g++, cc, c++, clang, clang++ | WORDS -B -fplugin -wrapper -specs --specs -fuse-ld -load -Xclang @
psql | -o --output -L --log-file -f --file
mysql | --pager --tee --init-command
sqlite3 | WORDS -cmd -init -A
xargs | VALUED=InPLsdE -a --arg-file
"""

_RUNNERS = (
    *((python, "-m") for python in ("python", "python2", "python3")),
    *((name, word) for name in ("poetry", "pipenv", "uv", "hatch", "pdm", "rye", "pixi", "pipx") for word in ("run",)),
    *((name, word) for name in ("npm", "pnpm", "yarn", "bundle") for word in ("exec",)),
    *((name, word) for name in ("pnpm", "yarn") for word in ("dlx",)),
    *(("npm", "x"), ("bun", "x"), ("mise", "exec"), ("mise", "x")),
    *((name,) for name in ("npx", "pnpx", "bunx", "uvx", "pnpm", "yarn")),
)
"""Words before the real program: `python -m pytest` has the options of pytest."""

_MOST_INNER = 3
"""The words after a runner of which each may be the program that it runs."""

_NO_FILE = r"-|/dev/(null|stdout|stderr)"
_HARMLESS_VALUES = {
    **dict.fromkeys(("curl -o", "curl --output", "curl -D", "curl --dump-header", "git --output"), _NO_FILE),
    **dict.fromkeys(("wget -O", "wget --output-document", "wget -o", "sort -o", "sort --output"), _NO_FILE),
    **dict.fromkeys(
        ("rsync -f", "rsync --filter"), r"([-+PRHS!]|include|exclude|hide|show|protect|risk|clear)\b.*|[-+!].*"
    ),
    "git -c": r"(user\.(name|email)|color\.[\w.]+|advice\.\w+|core\.quotepath|init\.defaultbranch)=.*",
    "pytest -p": r"no:\w+",
    "pytest --cov-report": r"term(-missing)?|",
    **dict.fromkeys(("pytest -W", "pytest --pythonwarnings"), r"[a-z]+(::\w+)?"),
    "eslint -f": r"[a-z-]+",
    "eslint --format": r"[a-z-]+",
    "vitest --reporter": r"[a-z-]+",
    **dict.fromkeys(("jest --coveragereporters", "vitest --coverage."), r"[a-z-]+"),
    "jest --coverageprovider": r"v8|babel",
    "jest --ci": r"true|false|",
    **dict.fromkeys(("prettier --parser", "dotnet -l", "dotnet --logger", "dotnet -logger"), r"[a-z-]+"),
    "dotnet --collect": r"[A-Za-z ]+",
    "go -mod": r"readonly|vendor",
    "vitest --environment": r"node|jsdom|happy-dom|edge-runtime",
    "rspec -f": r"[a-z]+",
    "rspec --format": r"[a-z]+",
    "mvn -D": r"(test|it\.test|skipTests|maven\.test\.skip|failIfNoTests)(=[\w.#*,]*)?",
    "git config": r"--get|--get-all|-l|--list|get|list",
}
"""Values with which an option has no side effect."""

_BAD_TEXTS = {
    "git": re.compile(
        r"--(format|pretty)=.*%G|^(ext|fd)::"
    ),  # signatures are verified by a program that the configuration names
    "cargo": re.compile(r"^--logfile"),
    "curl": re.compile(r"%output\{"),
    "vitest": re.compile(r"^--(coverage|typecheck)\.(?!(provider=(v8|istanbul)|enabled|all|reporter=[a-z-]+)$)"),
    "jq": re.compile(r"\b(env|import|include|modulemeta|get_search_list)\b|\$ENV|\$__prog"),
    "yq": re.compile(r"\b(load\w*|env|strenv|envsubst|system|import|include)\b|\$ENV|\$__prog"),
    "psql": re.compile(r"\\|\bprogram\b|\bpg_read_file\b|\bcopy\b", re.IGNORECASE),
    "mysql": re.compile(r"\\!|\b(system|source|outfile|dumpfile|load_file|infile)\b", re.IGNORECASE),
    "sqlite3": re.compile(r"^\s*\.|\n\s*\.|\b(load_extension|readfile|writefile|edit|attach|vacuum)\b", re.IGNORECASE),
}
"""Programs that are script languages, and the texts in them that write, run or read other files."""

_MAX_OPERANDS = {"uniq": 1, "xxd": 1}
"""Programs that write the next operand after this number of operands."""

_STATEMENT_OPTIONS = {
    "psql": re.compile(r"-[a-zA-Z]*[cl]|--(command|list|version|help)"),
    "mysql": re.compile(r"-[a-zA-Z]*e|--(execute|version|help)"),
    "sqlite3": re.compile(r"--?(version|help)"),
}
"""Options of database clients without which they run the statements, and the shell commands, of their input."""

STATEMENTS = "statements of its input"
_SETS_CLOCK = re.compile(r"\d{8}(\d\d){0,2}(\.\d\d)?")
_OTHER_MACHINE = re.compile(r"[^-/:=][^/:=]*:")
"""The name of an archive that tar gets from another machine."""

_ASSIGNMENT = re.compile(r"([A-Za-z_.][\w.-]*)[:+?!]*=(.*)", re.DOTALL)
_BUILD_VALUE = re.compile(r"(?!-)[\w.,:@%+=-]*")
"""A value of a variable of make or rake that is no path, no option and no text for a shell."""

_SCRIPT_RUNNERS = {"npm": word_set("test t tst start run run-script"), "bun": word_set("run")}
_OTHER_SUBCOMMANDS = word_set(
    "install i add remove rm up upgrade update why list ls info audit outdated cache config init link unlink pack"
    " publish version workspace workspaces dlx exec create import store patch dedupe prune rebuild"
)
"""Subcommands of yarn and pnpm that are no script. Every other first word names a script."""


_RUN_BY_SCRIPTS = ("jest", "vitest", "mocha", "eslint", "prettier", "tsc", "node", "playwright", "webpack", "stylelint")
_GOALS = {
    **dict.fromkeys(("mvn", "mvnw"), re.compile(r"[^:]*:.*")),
    **dict.fromkeys(
        ("gradle", "gradlew"),
        re.compile(r"(.*:)?(publish\w*|upload\w*|release\w*|init|wrapper|run)", re.IGNORECASE),
    ),
}
"""Goals that run any code or publish, so that a rule for other goals does not cover them."""

_RUN_BY_MAKE = word_set(
    "SHELL .SHELLFLAGS MAKE MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES AR AS CC CXX CPP FC LD LEX YACC RM INSTALL PYTHON"
)
_ROW_FLAGS = word_set("WORDS EXACT NOPT")
_NOPT = re.compile(r"^--+(?:no-)?")
"""Characters that npm accepts as the two dashes of a long option."""

_PLAIN_VALUE = re.compile(r"[\w.,:/@%+=-]*")
_GIT_VALUED = word_set("-C -c --git-dir --work-tree --namespace --config-env")


class SideEffects(Struct, frozen=True):
    """The options of one program with side effects. `valued` are letters that end a cluster."""

    options: frozenset[str]
    valued: str = ""
    words: bool = False
    exact: bool = False
    nopt: bool = False

    def option(self, word: str) -> tuple[str, str | None] | None:
        """Return which of the options the word is, with its attached value."""
        if self.nopt:
            word = _NOPT.sub("--", word)
        name, equals, value = word.partition("=")
        attached = value if equals else None
        if not word.startswith("-"):
            begins = any(
                not option[0].isalnum() and option[0] != "-" and word.startswith(option) for option in self.options
            )
            return (word, None) if begins else None
        if not word.startswith("--"):
            if name in self.options and len(name) > 2:
                return name, attached
            if self.words and ":" in name and name.partition(":")[0] in self.options:
                return name.partition(":")[0], word.partition(":")[2]
            return self._letter(word) or (self._long(f"-{name}", attached) if self.exact and len(name) > 3 else None)
        if self.words and name[1:] in self.options:
            return name[1:], attached
        if self.words and ":" in name and name.partition(":")[0] in self.options:
            return name.partition(":")[0], word.partition(":")[2]
        return self._long(name, attached)

    def _long(self, name: str, attached: str | None) -> tuple[str, str | None] | None:
        """Return which of the long options this is: by any spelling of its letters, or by its beginning."""
        plain = name.split(".")[0].replace("-", "").lower()
        found = next((option for option in self.options if option == name), None)
        if found is None and self.exact:
            found = next((option for option in self.options if _plain(option) == plain), None)
        if found is None and not self.exact and len(name) > 2:
            found = next((option for option in self.options if option.startswith(name)), None)
        return None if found is None else (found, attached)

    def _letter(self, word: str) -> tuple[str, str | None] | None:
        for at, letter in enumerate(word[1:2] if self.words else word[1:], 2):
            if f"-{letter}" in self.options:
                return f"-{letter}", word[at:] or None
            if letter in self.valued or letter == "=":
                break
        return None


def _plain(option: str) -> str:
    return option.replace("-", "").lower() if option.startswith("--") else ""


def find_side_effect(words: Words, named: Sequence[str]) -> str:
    """Return the first word with a side effect of the program, or an empty text.

    Words that a rule has `named` are allowed. An unknown word is judged elsewhere.
    """
    program = base_name(words[0]) or "" if words else ""
    first = _subcommand(program, words)
    is_script = _runs_script(program, words[first]) if first < len(words) else False
    names = (*_programs(program, words, first), *(_RUN_BY_SCRIPTS if is_script else ()))
    for at in range(1, len(words)):
        word = words[at]
        if word == "--" and program == "cmake":
            return "--"  # further words are for make or ninja
        if word == "--" and program in {"tox", "dotnet", "hatch"}:
            return "--"  # further words are for the commands that it runs
        if word == "--" and program not in {"find", "go"} and not is_script:
            break
        if word is None or word in named or word == "--":
            continue
        if at == 1 and program == "tar" and not word.startswith("-"):
            word = "-" + "".join(letter for letter in word if letter not in "bfgCHKLNTVX")  # `tar cfI FILE PROGRAM`
        after = words[at + 1] if at + 1 < len(words) else None
        if at < first and program == "git" and re.match(r"-c", word):
            if not _is_harmless(names, "-c", word[2:] or after):
                return "-c"
        elif found := _option_in(names, word, after, named, is_subcommand=at == first):
            return found
    return _text_in(names, words, named)


def _runs_script(program: str, word: str | None) -> bool:
    """Return True when further words go to a script of the project, which may run any of `_RUN_BY_SCRIPTS`."""
    return word not in _OTHER_SUBCOMMANDS if program in {"yarn", "pnpm"} else word in _SCRIPT_RUNNERS.get(program, ())


def _option_in(names: Sequence[str], word: str, after: str | None, named: Sequence[str], is_subcommand: bool) -> str:
    """Return the option with a side effect, or an empty text."""
    for name in names:
        row = _rows().get(name)
        if row is None:
            continue
        found = (word, None) if is_subcommand and word in row.options else row.option(word)
        if found is None:
            continue
        option, attached = found
        value = after if attached is None else attached
        if not _is_named(option, word, named) and not _is_harmless(names, option, value):
            return option
    return ""


def _text_in(names: Sequence[str], words: Words, named: Sequence[str]) -> str:
    """Return the operand with a side effect: a text in its language, a variable, one more file."""
    program = names[0]
    bad = [_BAD_TEXTS[name] for name in names if name in _BAD_TEXTS]
    operands = [word for word in words[1:] if word is not None and not word.startswith("-")]
    for word in words[1:]:
        if word in named:
            continue
        if word is not None and any(text.search(word) for text in bad):
            return word
        found = _ASSIGNMENT.fullmatch(word or "") if program in {"make", "gmake", "rake"} else None
        if found is not None and (found[1] in _RUN_BY_MAKE or not _BUILD_VALUE.fullmatch(found[2])):
            return f"{found[1]}="
        if word is not None and program in _GOALS and _GOALS[program].fullmatch(word):
            return word
        if program in {"just", "task"} and not _PLAIN_VALUE.fullmatch(word or ""):
            return word or ""  # it becomes a part of a shell text
    known_words = [word for at, word in enumerate(words) if at and word is not None]
    if program in _STATEMENT_OPTIONS and not any(map(_STATEMENT_OPTIONS[program].match, known_words)):
        return STATEMENTS if program != "sqlite3" or len(operands) < 2 else ""
    if program == "tar" and (host := next(filter(_OTHER_MACHINE.match, operands), "")):
        return host
    if program == "date" and (time := next(filter(_SETS_CLOCK.fullmatch, operands), "")):
        return time
    return _written_operand(program, known_words)


def _written_operand(program: str, words: Sequence[str]) -> str:
    """Return the operand to which the program writes; a lonely `-` is the standard input."""
    most = _MAX_OPERANDS.get(program, len(words))
    operands = [at for at, word in enumerate(words) if not word.startswith("-") or word == "-"]
    if program == "xxd" and operands:
        operands = list(range(operands[0], len(words)))  # its options end at the first operand
    return words[operands[most]] if len(operands) > most else ""


def _programs(program: str, words: Words, first: int) -> Iterator[str]:
    """Yield the names that may have a row: the program, with its subcommand, and the program that a runner runs."""
    yield program
    if first < len(words):
        yield f"{program} {words[first]}"
    runner = next((one for one in _RUNNERS if (program, *words[1 : len(one)]) == one), None)
    # Options of the runner may come first, some with a value: `npx -p typescript tsc`, `npm exec -- tsc`.
    operands = [word for word in words[len(runner or ()) :] if word and not word.startswith("-")]
    for word in operands[:_MOST_INNER] if runner is not None else ():
        yield base_name(word) or word


def _subcommand(program: str, words: Words) -> int:
    """Return the index of the first word that is no option."""
    at = 1
    while at < len(words) and (words[at] or "").startswith("-"):
        at += 2 if program == "git" and words[at] in _GIT_VALUED else 1
    return at


def _is_named(option: str, word: str, named: Sequence[str]) -> bool:
    letters = {f"-{letter}" for one in named if re.fullmatch(r"-[A-Za-z]+", one) for letter in one[1:]}
    names = {one.partition("=")[0] for one in named}
    return bool({option, word.partition("=")[0]} & (names | letters))


def _is_harmless(names: Sequence[str], option: str, value: str | None) -> bool:
    patterns = (_HARMLESS_VALUES.get(f"{name} {option}") for name in names)
    return any(pattern is not None and re.fullmatch(pattern, value or "", re.IGNORECASE) for pattern in patterns)


@cache
def _rows() -> dict[str, SideEffects]:
    rows: dict[str, SideEffects] = {}
    for line in re.sub(r"\n +", " ", _TABLE).strip().splitlines():
        names, _, text = line.partition(" | ")
        words = text.split()
        valued = next((word.removeprefix("VALUED=") for word in words if word.startswith("VALUED=")), "")
        options = frozenset(word for word in words if not word.startswith("VALUED=") and word not in _ROW_FLAGS)
        row = SideEffects(options, valued, "WORDS" in words, "EXACT" in words, "NOPT" in words)
        rows.update(dict.fromkeys(names.split(", "), row))
    return rows
