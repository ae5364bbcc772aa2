# teamwright shell snapshot 2
# {"aliases": {"gp": "git push"}, "failed": "", "functions": ["greet"], "path": "/home/ada/bin:/usr/bin", "startup": "/bin/bash; ~/.bashrc 1700000000000000000 120"}
set -o noclobber
shopt -s extglob
greet () 
{ 
    echo "hi $1"
}
return 0
