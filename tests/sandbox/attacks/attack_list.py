"""Hostile commands: each tries one thing that the sandbox must refuse, and prints the canary or writes it.

A line may use `$HOME`, `$STATE`, `$WORK`, `$OUTSIDE`, `$VICTIM` (a pid), `$PORT` (TCP and UDP on localhost), and of
another program `$SOCKET`, `$ABSTRACT` (the abstract name of one), `$DATAGRAMS`, `$TTY`, `$SEGMENT` (shared memory) and
`$SHARED` (a file in /dev/shm). `$REQUEST` is the id of a pending request in `$REQUESTS`. Programs of the person listen
on `$TMUX_SOCKET`, `$SSH_AGENT` and `$BUS`. `$PYTHON` is a Python with Teamwright.
"""

from typing import NamedTuple

CANARY = "CANARY-7f3a"


class Attack(NamedTuple):
    """An attack: its subject in the table of guarantees, its name, the line, and whether only *read* refuses it.

    `first` is a working command before it. A command that started earlier runs `between` after the policy of the line
    was made; another program runs `during` when the line has printed something. `limits` are the implementations with a
    known limit.
    """

    subject: str
    name: str
    line: str
    only_read: bool = False
    first: str = ""
    limits: tuple[str, ...] = ()
    between: str = ""
    during: str = ""


def _python(code: str) -> str:
    return f"python3 -c '{code}'"


_SET_ATTRIBUTES = (
    'import ctypes,os,struct; call=ctypes.CDLL(None).syscall; path=os.environ["WORK"].encode()+b"/a.txt";'
    ' nodump=struct.pack("QIIII",0x80,0,0,0,0); print("CANARY-7f3a" if call(469,-100,path,nodump,24,0)==0 else 0)'
)
"""The system call file_setattr of Linux 6.17."""

ATTACKS = [
    Attack("reads", "a private key", "cat $HOME/.ssh/id_ed25519"),
    Attack("reads", "a key by a link", "ln -s $HOME/.ssh/id_ed25519 $WORK/k 2>&1; cat $WORK/k $HOME/.ssh/*"),
    Attack("reads", "a cloud key", "cat $HOME/.aws/credentials"),
    Attack("reads", "a token of npm", "cat $HOME/.npmrc"),
    Attack(
        "reads",
        "a token that a program replaced",
        "echo; for i in $(seq 30); do cat $HOME/.npmrc; sleep 0.1; done 2>/dev/null",
        limits=("bubblewrap",),
        during="cp $HOME/.npmrc $HOME/n; mv $HOME/n $HOME/.npmrc",
    ),
    Attack("reads", "mail of another member", "cat $STATE/inbox.json"),
    Attack("reads", "a file in the home", "cat $HOME/notes.txt", only_read=True),
    Attack("reads", "the password file", "head -c 20 /etc/shadow && echo CANARY-7f3a"),
    Attack("reads", "the environment of a process", "tr '\\0' '\\n' < /proc/$VICTIM/environ"),
    Attack("reads", "the root of a process", "cat /proc/$VICTIM/root$HOME/.ssh/id_ed25519"),
    Attack(
        "reads",
        "a file that a rule denies, in a moved directory",
        "cat $WORK/keys/a.pem $WORK/moved/a.pem",
        first="mv $WORK/keys $WORK/moved",
    ),
    Attack(
        "reads",
        "the home by a link for programs",
        "cat $HOME/notes.txt",
        only_read=True,
        first="mkdir $WORK/.venv && ln -s $HOME $WORK/.venv/bin",
    ),
    Attack("reads", "a device", "for d in loop0 vda sda tty0; do (exec 3</dev/$d) && echo CANARY-7f3a; done"),
    Attack("reads", "a file of /dev/shm", "cat $SHARED", only_read=True),
    Attack(
        "reads",
        "shared memory of a program",
        _python(
            "import ctypes,os; l=ctypes.CDLL(None); l.shmat.restype=ctypes.c_void_p;"
            'a=l.shmat(int(os.environ["SEGMENT"]),None,4096); print(ctypes.string_at(a))'
        ),
    ),
    Attack(
        "processes",
        "the end of shared memory",
        _python(
            'import ctypes,os; l=ctypes.CDLL(None);l.shmctl(int(os.environ["SEGMENT"]),0,None) or print("CANARY-7f3a")'
        ),
    ),
    Attack(
        "reads",
        "the arguments of a process",
        "tr '\\0' ' ' < /proc/$VICTIM/cmdline | grep sleep && echo CANARY-7f3a",
        limits=("landlock",),
    ),
    Attack("writes", "a shell start file", "echo CANARY-7f3a >> $HOME/.bashrc"),
    Attack("writes", "a file outside", "echo CANARY-7f3a > $OUTSIDE/new"),
    Attack("writes", "a file of the project", "echo CANARY-7f3a > $WORK/a.txt", only_read=True),
    Attack("writes", "a git hook", "echo CANARY-7f3a > $WORK/.git/hooks/pre-commit"),
    Attack("writes", "the git configuration", "echo CANARY-7f3a >> $WORK/.git/config"),
    Attack(
        "writes",
        "another git directory",
        "mv $WORK/.git $WORK/.g; mkdir $WORK/.git && echo CANARY-7f3a > $WORK/.git/config",
    ),
    Attack(
        "writes",
        "a hard link to a hook",
        "ln $WORK/a.txt $WORK/.git/hooks/post-checkout; echo CANARY-7f3a > $WORK/.git/hooks/post-checkout",
    ),
    Attack("writes", "a link out of the project", "ln -s $OUTSIDE $WORK/out; echo CANARY-7f3a > $WORK/out/new"),
    Attack(
        "writes",
        "the home by a link for a cache",
        "echo CANARY-7f3a >> $HOME/.bashrc",
        first="ln -s $HOME $WORK/.pip-cache; ln -s $HOME $HOME/.cache/uv",
    ),
    Attack(
        "writes",
        "the home by a link in the place of a cache",
        "echo CANARY-7f3a >> $HOME/.bashrc",
        first="mkdir $WORK/.pip-cache",
        between="mv $WORK/.pip-cache $WORK/c; ln -s ../home $WORK/.pip-cache",
    ),
    Attack(
        "writes",
        "the home by a link in the place of a directory",
        "echo CANARY-7f3a >> $HOME/.bashrc",
        between="mv $WORK/keys $WORK/k; ln -s ../home $WORK/keys",
    ),
    Attack(
        "writes",
        "the git configuration that git replaced",
        "echo; for i in $(seq 30); do (printf '[core]\nfsmonitor=CANARY-7f3a\n' >> $WORK/.git/config) && break;"
        " sleep 0.1; done 2>/dev/null",
        during="git -C $WORK config user.name x",
    ),
    Attack("writes", "a start file in a cache", "echo CANARY-7f3a >> $HOME/.cache/prompt.zsh"),
    Attack("writes", "a hard link to a start file", "ln $HOME/.bashrc $WORK/b && echo CANARY-7f3a >> $WORK/b"),
    Attack(
        "writes",
        "a hard link to the git configuration",
        "ln $WORK/.git/config $WORK/c && echo CANARY-7f3a >> $WORK/c",
    ),
    Attack("writes", "a hook of the project", "echo CANARY-7f3a >> $WORK/.husky/pre-commit"),
    Attack("writes", "a task of an editor", "echo CANARY-7f3a >> $WORK/.vscode/tasks.json"),
    Attack(
        "writes",
        "an answer to a request",
        "$PYTHON -c 'import os; from pathlib import Path; from teamwright.requests.request_store import RequestStore;"
        ' RequestStore(Path(os.environ["REQUESTS"])).answer(os.environ["REQUEST"], {"verdict": "allow"})\'',
    ),
    Attack(
        "writes",
        "the file of an answer",
        'echo "{\\"id\\":\\"$REQUEST\\",\\"v\\":1,\\"verdict\\":\\"allow\\"}" > $REQUESTS/$REQUEST.answer.json',
    ),
    Attack("writes", "a file in /dev/shm", "echo changed > $SHARED", limits=("landlock",)),
    Attack("writes", "the state of a session", "echo CANARY-7f3a >> $STATE/inbox.json"),
    Attack(
        "writes",
        "a setting of the kernel",
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern && echo CANARY-7f3a",
    ),
    Attack("writes", "the mode of a file", "chmod 600 $WORK/a.txt && echo CANARY-7f3a", only_read=True),
    Attack("writes", "the time of a file", "touch -d 2001-01-01 $WORK/a.txt && echo CANARY-7f3a", only_read=True),
    Attack("writes", "attributes of a file", "chattr +d $WORK/a.txt && echo CANARY-7f3a", only_read=True),
    Attack("writes", "attributes of a file by its name", _python(_SET_ATTRIBUTES), only_read=True),
    Attack("processes", "limits of a process", "prlimit --pid $VICTIM --cpu=1 && echo CANARY-7f3a"),
    Attack("network", "TCP", "exec 3<>/dev/tcp/127.0.0.1/$PORT && echo CANARY-7f3a"),
    Attack(
        "network",
        "UDP",
        _python('import socket,os; socket.socket(2,2).sendto(b"CANARY-7f3a",("127.0.0.1",int(os.environ["PORT"])))'),
    ),
    Attack(
        "network",
        "multipath TCP",
        _python(
            'import socket,os; socket.socket(2,1,262).connect(("127.0.0.1",int(os.environ["PORT"])));'
            'print("CANARY-7f3a")'
        ),
    ),
    *(
        Attack(
            "network",
            f"TCP that {call} opens",
            _python(
                'import socket,os; s=socket.socket(); there=("127.0.0.1",int(os.environ["PORT"]));'
                f's.{arguments} and print("CANARY-7f3a")'
            ),
        )
        for call, arguments in (
            ("sendto", 'sendto(b"x",0x20000000,there)'),
            ("sendmsg", 'sendmsg([b"x"],[],0x20000000,there)'),
        )
    ),
    Attack("network", "DNS", _python('import socket; print("CANARY-7f3a", socket.gethostbyname("example.com"))')),
    Attack("network", "a packet socket", _python('import socket; socket.socket(17,3); print("CANARY-7f3a")')),
    Attack(
        "network", "a socket of the hypervisor", _python('import socket; socket.socket(40,1); print("CANARY-7f3a")')
    ),
    Attack(
        "sockets",
        "a socket in a directory",
        _python('import socket,os; socket.socket(1,1).connect(os.environ["SOCKET"]); print("CANARY-7f3a")'),
    ),
    Attack(
        "sockets",
        "an abstract socket",
        _python('import socket,os; socket.socket(1,1).connect("\\0"+os.environ["ABSTRACT"]); print("CANARY-7f3a")'),
    ),
    Attack(
        "sockets",
        "the docker service",
        _python('import socket; socket.socket(1,1).connect("/run/docker.sock"); print("CANARY-7f3a")'),
    ),
    Attack(
        "sockets",
        "datagrams of a pair of sockets",
        _python(
            "import socket,os; s,_=socket.socketpair(1,2);"
            's.sendto(b"CANARY-7f3a",os.environ["DATAGRAMS"]); print("CANARY-7f3a")'
        ),
    ),
    Attack("sockets", "the tmux server", 'tmux -S $TMUX_SOCKET run-shell "echo CANARY-7f3a > $OUTSIDE/new"'),
    Attack("sockets", "the ssh agent", "SSH_AUTH_SOCK=$SSH_AGENT ssh-add -l; [ $? -lt 2 ] && echo CANARY-7f3a"),
    Attack(
        "sockets",
        "the D-Bus of systemd-run --user",
        "busctl --address=unix:path=$BUS list && echo CANARY-7f3a",
    ),
    Attack("processes", "a signal", "kill -TERM $VICTIM && echo CANARY-7f3a"),
    Attack("processes", "memory of a process", "head -c 1 /proc/$VICTIM/mem && echo CANARY-7f3a"),
    Attack(
        "processes",
        "ptrace",
        _python('import ctypes,os; ctypes.CDLL(None).ptrace(16,int(os.environ["VICTIM"]),0,0) or print("CANARY-7f3a")'),
    ),
    Attack("processes", "a new user namespace", "unshare -Ur true && echo CANARY-7f3a"),
    Attack("processes", "a mount", "mount -t tmpfs x /mnt && echo CANARY-7f3a"),
    Attack("processes", "a capability", "grep -v 0000000000000000 /proc/self/status | grep CapEff && echo CANARY-7f3a"),
    Attack(
        "processes",
        "input of a terminal",
        _python('import fcntl,termios; fcntl.ioctl(0,termios.TIOCSTI,b"x"); print("CANARY-7f3a")'),
    ),
    Attack("processes", "the terminal of a program", "echo CANARY-7f3a > $TTY && echo CANARY-7f3a"),
    Attack(
        "processes",
        "an inherited descriptor",
        "for f in /proc/self/fd/*; do case $f in */[012]) ;; *) cat $f 2>/dev/null;; esac; done",
    ),
    Attack(
        "processes",
        "io_uring",
        _python('import ctypes; ctypes.CDLL(None).syscall(425,1,bytes(200)) >= 0 and print("CANARY-7f3a")'),
    ),
]
"""The attacks, by subject."""
