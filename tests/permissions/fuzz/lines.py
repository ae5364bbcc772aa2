"""Common lines, from which others are made: some only read, some change files, some are for bypassPermissions."""

LINES = r"""
cd opts && ls
cd opts && wc -l ./*
cd opts && cat a *
find opts -type f
git status
git diff
git log --oneline -5
git show --stat HEAD
git branch -a
git blame a.py
git stash list
git rev-parse --show-toplevel
git ls-files | wc -l
git grep -n TODO
git diff main...HEAD
git log --graph --oneline --all -20
git remote -v
git tag
git config user.name
git config --get core.pager
git -C sub status
git log -p -1 -- a.py
ls -la src
ls -R | head -50
ls *.py
cat a.py
cat -n a.py | head -20
head -n 20 a.py b.py
tail -n 20 a.py
sed -n '1,20p' a.py
sed -e 's/a/b/g' a.py
sed 's/one/two/; s/x/y/' src/main.py
wc -l src/*.py
grep -rn "def " src
grep -rn --include='*.py' TODO src
grep -E 'a|b' a.py
grep -c one a.py
grep -A 2 -e one a.py
rg -n 'class \w+' src
rg --files src | head
find . -name '*.py'
find . -type f -name '*.py' | xargs wc -l
find . -name '*.py' -exec wc -l {} +
find . -name '*.py' -not -path './sub/*' | head
find src -newer a.py
which python3
python3 --version
uname -a
echo $PATH
echo "$HOME"
env | grep PATH
df -h
du -sh .
file a.py
stat a.py
diff a.py src/main.py
sort numbers | uniq -c | sort -rn | head
cut -d, -f1 data.csv
awk '{print $1}' a.py
awk -F, '{print $2}' data.csv
awk '{sum+=$1} END {print sum}' numbers
awk '$1 > 1' numbers
jq . package.json
jq -r '.scripts | keys[]' package.json
cat package.json | jq .name
python3 -m json.tool package.json
xxd a.py | head
hexdump -C a.py | head
strings a.py
basename src/main.py .py
dirname src/main.py
test -f a.py && echo yes
[ -d src ] && ls src
[[ -f a.py ]] && echo yes
for f in src/*.py; do wc -l "$f"; done
for f in src/*.py; do echo "$f"; head -3 "$f"; done
for i in 1 2; do echo $i; done
ls src/*.py | while read f; do echo $f; done
ls src/*.py | while read -r f; do wc -l "$f"; done
cat a.py 2>/dev/null
ls nothing 2>&1 || true
cd src && ls
cd src && grep -n x main.py
(cd src && ls)
x=1; echo "$x"
x=$(ls src); echo "$x"
echo $((1+2))
if [ -d src ]; then ls src; else pwd; fi
case a in a) ls;; *) pwd;; esac
md5sum a.py
readlink -f a.py
realpath src/main.py
printenv PATH
type ls
command -v git
seq 1 3
comm -12 a.py src/main.py
tr -d '\n' < a.py
column -t data.csv
paste a.py b.py
fold -w 80 a.py
tar tf x.tar
zcat numbers.gz
cat <<EOF
text
EOF
cat <<'EOF' | wc -l
$(no)
EOF
bash -c "ls src"
timeout 5 ls
xargs -n1 echo < numbers
LC_ALL=C sort a.py
echo "$(wc -l < a.py)"
cmp a.py b.py; echo $?
ls & wait
while read -r x; do echo "$x"; done < numbers
! grep -q none a.py
{ ls; pwd; }
echo a b | tr ' ' '\n' | sort
nl a.py; tac a.py; rev a.py
od -c a.py | head
"""
CHANGING = r"""
cp a.py c.py
mv a.py c.py
mkdir -p build/x
mkdir {x,y}
touch new.py
touch -d now a.py
cp a.py c.py; cat c.py
mkdir d; cd d; cp ../a.py .
cp -r src copy
mv src/util.py sub
mkdir build && cp a.py build
touch x y z
mv a.py src
cp -r sub/up x
cp -a out x
mkdir -m 700 private
"""
BYPASSING = r"""
cp a.py c.py
echo x > new
echo x >> src/main.py
cat "$PWD/.env"
source .env
base64 .env
dd if=.env
ln .env x
cp .env x
mv src/main.py x
rm src/main.py
tee src/main.py < a.py
> ${PWD}/src/q
touch src/new
sed -i s/x/y/ src/main.py
cd "$PWD" && make -n
cd src && touch q
ls | touch_marker
bash -c "touch_marker"
bash -euo pipefail -c touch_marker
bash -c -e touch_marker
eval -- touch_marker
compgen -W '$(touch_marker)'
split --filter=touch_marker a.py
linux64 touch_marker
cd sub && cat /proc/self/cwd/up/above
mkdir -p q; touch q/peek; cp -rT q .
mkdir -p q/src && touch q/src/main.py && cp -r q/* .
find . -maxdepth 1 -exec touch_marker \;
echo x | xargs touch_marker
timeout 1 touch_marker
env A=1 touch_marker
parallel touch_marker ::: x
eval touch_marker
(touch_marker)
cat < .env
while read x; do echo $x; done < .env
for f in .env; do cat $f; done
grep . .env
head -1 conf/../.env
python3 -c 'print(1)'
npm --version
"""
