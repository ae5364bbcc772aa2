"""The paths that commands cannot read, cannot change, or may use as caches: tables, and a look-up in them.

Names are relative to the user's home directory, unless they begin with a slash. A hidden path may have other names in
other mounts: they are read from /proc/PID/mountinfo (proc_pid_mountinfo(5)). Without that file (macOS) nothing is
known of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from teamwright.sandbox.guarded_files import is_protected

SSH = (".ssh",)
GIT_STORES = (".git-credentials", ".config/git/credentials", ".cache/git", ".git-credential-cache")
GIT = (*SSH, *GIT_STORES, ".netrc", "_netrc", ".config/gh")
NODE_PACKAGES = (".npmrc", ".yarnrc", ".yarnrc.yml", ".config/configstore")
CLOUDS = (".aws", ".azure", ".config/gcloud", ".kube", ".oci", ".boto", ".s3cfg")

CLUSTERS = (".minikube", ".config/argocd", ".rancher")
WAREHOUSES = (".snowsql", ".snowflake", ".config/snowflake", ".dbt", ".databrickscfg")

CREDENTIALS = (
    *GIT,
    *NODE_PACKAGES,
    *CLOUDS,
    *(".gnupg", ".password-store", ".local/share/keyrings", "Library/Keychains", ".config/op", ".vault-token"),
    *(".config/hub", ".config/glab-cli", ".docker", ".config/containers/auth.json", ".config/helm"),
    *(".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml"),
    *(".m2/settings-security.xml", ".gradle/gradle.properties", ".nuget/NuGet", ".composer/auth.json", ".condarc"),
    *(
        ".pgpass",
        ".pg_service.conf",
        ".my.cnf",
        ".mylogin.cnf",
        ".huggingface",
        ".cache/huggingface/token",
    ),
    *(".terraform.d", ".terraformrc", ".pulumi", ".config/doctl", ".config/rclone", ".config/heroku", ".fly"),
    *(".config/netlify", ".local/share/com.vercel.cli", ".config/.wrangler", ".wrangler", ".config/configstore"),
    *(".config/google-chrome", ".config/chromium", ".mozilla", ".config/BraveSoftware", ".thunderbird"),
    *(".config/pypoetry/auth.toml", ".local/share/uv/credentials", ".bundle/config", ".config/composer/auth.json"),
    *(".config/sops", ".config/age", ".config/hcloud", ".config/scw", ".config/ngrok", ".ngrok2", ".jfrog", ".railway"),
    *(".Xauthority", ".ICEauthority", ".local/share/kwalletd", ".config/stripe", ".config/turso", ".supabase"),
    *(".config/github-copilot", ".claude/.credentials.json", ".claude.json", ".codex", ".gemini"),
    *(".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history"),
    *(
        ".zhistory",
        ".histfile",
        ".local/share/fish",
        ".rediscli_history",
        ".sqlite_history",
        ".irb_history",
        ".lesshst",
    ),
    *(".viminfo", ".config/nushell/history.txt", ".config/nushell/history.sqlite3", ".local/share/atuin"),
    *(".local/state/bash/history", ".local/state/zsh/history", ".local/share/zsh/history"),
    # Browsers, mail, chats and stores of passwords.
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".config/google-chrome-beta", ".librewolf", ".zen"),
    *(".config/google-chrome-unstable", ".waterfox", ".var/app", "snap/firefox", "snap/chromium", "snap/thunderbird"),
    *(f"Library/{name}" for name in ("Safari", "Cookies", "Mail", "Messages", "Containers", "Group Containers")),
    *(
        f"Library/Application Support/{name}"
        for name in ("Google/Chrome", "Firefox", "BraveSoftware", "Microsoft Edge", "Arc", "Chromium", "Vivaldi")
    ),
    *(".config/evolution", ".local/share/evolution", ".config/Signal", ".config/Slack", ".config/discord"),
    *(".config/Element", ".local/share/TelegramDesktop", ".authinfo", ".authinfo.gpg", ".msmtprc", ".mbsyncrc"),
    *(".fetchmailrc", ".offlineimaprc", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/1Password"),
    *(".config/keepassxc", ".config/filezilla", ".putty", ".vnc/passwd", ".config/remmina", ".local/share/remmina"),
    # Editors and other agents.
    *(f".config/{name}/User/globalStorage" for name in ("Code", "Code - Insiders", "Cursor", "VSCodium", "Windsurf")),
    *(".config/JetBrains", ".qwen", ".local/share/opencode", ".local/share/amp", ".config/goose", ".local/share/crush"),
    *(".config/cursor", ".codeium", ".factory", ".continue/.env", ".aider.conf.yml", ".config/aichat", ".openai"),
    *(".anthropic", ".config/anthropic", ".config/io.datasette.llm", ".ollama/id_ed25519"),
    # Other clouds, services and registries.
    *CLUSTERS,
    *WAREHOUSES,
    *(".aliyun", ".bluemix", ".config/linode-cli", ".config/openstack", ".ovh.conf", ".civo.json", ".edgerc"),
    *(".cloudflared", ".doppler", ".config/neonctl", ".config/planetscale", ".sentryclirc", ".modal.toml", ".kaggle"),
    *(
        ".cache/huggingface/stored_tokens",
        ".influxdbv2",
        ".mc",
        ".passwd-s3fs",
        ".b2_account_info",
        ".config/borg/keys",
    ),
    *(".vsce", ".expo/state.json", ".dockercfg", ".step", ".acme.sh", ".sbt/.credentials", ".ivy2/.credentials"),
    *(".lein/credentials.clj.gpg", ".pub-cache/credentials.json", ".config/dart/pub-credentials.json"),
    *(".local/share/gem/credentials", ".config/tea"),
    # Keys of money.
    *(".bitcoin", ".electrum", ".ethereum/keystore", ".config/solana", ".foundry/keystores", ".near-credentials"),
)
"""Paths in the home directory with credentials, or with histories that often contain some."""

PRIVATE_NAMES = (
    *(".env", ".env.*", ".netrc", "_netrc", ".git-credentials", ".pgpass", ".my.cnf", ".mylogin.cnf", ".htpasswd"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "*.ppk", "*.p12", "*.pfx"),
    *("*.jks", "*.keystore", "*.kdbx", "*.tfstate", "*.tfstate.backup", ".vault-token", ".pypirc", ".dockercfg"),
    *(*SSH, *CLOUDS, ".gnupg", ".password-store", ".config/git/credentials", ".config/gh", ".docker/config.json"),
    *(".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history"),
)
"""Names of files and directories that hold keys and passwords in any directory, in lower case."""

PUBLIC_NAMES = (
    *(".env.example", ".env.*.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", ".env.test"),
    *("*.pub", "*.example", "*.sample", "*.template"),
)
"""Names that look private, of files that are meant to be shared."""

PRIVATE_CONTENTS: Mapping[str, str] = {
    **dict.fromkeys(("*.pem", "*.key", "*.p8", "*.asc"), "BEGIN [A-Z ]*PRIVATE KEY"),
    **dict.fromkeys((".npmrc", ".yarnrc", ".yarnrc.yml"), "_auth|_password|authtoken|Token"),
    **dict.fromkeys(
        ("*.json", "credentials", "credentials.toml", "auth.toml"), "private_key|secret_access_key|token ="
    ),
}
"""Names of files that are private if their beginning matches a pattern."""

GENERATED_DIRECTORIES = (
    *("node_modules", "bower_components", "__pycache__", ".venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache"),
    *(".ruff_cache", ".gradle", ".terraform", ".direnv", ".next", ".nuxt", ".parcel-cache", ".turbo", ".eggs"),
)
"""Directories that programs make again, and that nobody commits."""

SYSTEM_SECRETS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssl/private", "/etc/krb5.keytab", "/etc/kubernetes", "/etc/docker", "/etc/wireguard", "/etc/ipsec.secrets"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/spool/cron", "/var/lib/private", "/var/log"),
)
"""Paths of the system that no command of an agent needs, and that a superuser could read."""

SECRET_VARIABLES: Mapping[str, str] = {
    "SSH_AUTH_SOCK": ".ssh",
    "KUBECONFIG": ".kube",
    "AWS_SHARED_CREDENTIALS_FILE": ".aws",
    "AWS_CONFIG_FILE": ".aws",
    "GNUPGHOME": ".gnupg",
    "NETRC": ".netrc",
    "GOOGLE_APPLICATION_CREDENTIALS": ".config/gcloud",
    "DOCKER_CONFIG": ".docker",
    "NPM_CONFIG_USERCONFIG": ".npmrc",
    "GH_CONFIG_DIR": ".config/gh",
    "PGPASSFILE": ".pgpass",
    "PGSERVICEFILE": ".pgpass",
    "PGSSLKEY": ".pgpass",
    "XAUTHORITY": ".Xauthority",
    "ICEAUTHORITY": ".ICEauthority",
    "npm_config_userconfig": ".npmrc",
    "CLOUDSDK_CONFIG": ".config/gcloud",
    "AZURE_CONFIG_DIR": ".azure",
    "BOTO_CONFIG": ".boto",
    "RCLONE_CONFIG": ".config/rclone",
    "OCI_CLI_CONFIG_FILE": ".oci",
    "TF_CLI_CONFIG_FILE": ".terraformrc",
    "DATABRICKS_CONFIG_FILE": ".databrickscfg",
    "KAGGLE_CONFIG_DIR": ".kaggle",
    "HF_TOKEN_PATH": ".cache/huggingface/token",
    "REGISTRY_AUTH_FILE": ".config/containers/auth.json",
    "PASSWORD_STORE_DIR": ".password-store",
    "SOPS_AGE_KEY_FILE": ".config/sops",
    "CODEX_HOME": ".codex",
    "HISTFILE": ".bash_history",
}
"""Variables that name a file or directory with credentials, or a socket, each with its usual path in the home.

A command that names the usual path can read the other one."""

STARTUP_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".bash_aliases", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/fish", ".xprofile", ".xinitrc"),
    *(".gitconfig", ".config/git", ".config/systemd", ".config/autostart", ".local/bin", "bin", ".vimrc", ".vim"),
    *(".config/nvim", ".emacs", ".emacs.d", ".tmux.conf", ".config/tmux", ".pythonrc", ".config/pip", ".pip"),
    *(".claude", ".teamwright", ".cargo/config.toml", ".cargo/bin", ".direnvrc", ".config/direnv", ".deno/bin"),
    *(".pam_environment", ".config/environment.d", ".local/share/systemd", ".local/lib", ".docker", ".gnupg", ".aws"),
    *(".netrc", "_netrc", ".pypirc", ".npmrc", ".codex", ".gemini", ".cursor", ".config/opencode", ".ssh", ".kube"),
    *(".gradle/init.d", ".gradle/init.gradle", ".gradle/init.gradle.kts", ".yarn/bin", ".yarnrc.yml", ".config/zsh"),
    *(".cache/gitstatus", ".cache/starship", ".cache/wal", ".cache/zsh", ".cache/fish", ".cache/oh-my-zsh"),
    *(".cache/antidote", ".cache/antibody", ".cache/zinit", ".cache/nvim", ".cache/vim", ".cache/dein"),
)
"""Files in the home directory that later programs of the person execute or obey."""

CACHED_STARTUP = ("*.zsh", "*.zwc", "*.bash", "*.fish", "*.sh", "zcompdump*", ".zcompdump*")
"""Names of files in a cache's directory that a shell of the person reads when it starts."""

GIT_FILES = ("hooks", "config", "config.worktree", "commondir", "gitdir")
"""Files of a git directory that make git run programs, or use another directory."""

CACHES: Mapping[str, str] = {
    ".cache": "",
    ".npm": "npm",
    ".yarn": "yarn",
    ".pnpm-store": "pnpm",
    ".local/share/pnpm/store": "pnpm",
    ".bun/install/cache": "bun",
    ".deno": "deno",
    ".cargo/registry": "cargo",
    ".cargo/git": "cargo",
    "go/pkg": "go",
    ".gradle": "gradle",
    ".m2/repository": "mvn",
    ".ivy2": "sbt",
    ".nuget/packages": "dotnet",
    ".cabal/packages": "cabal",
    ".bundle/cache": "bundle",
    ".node-gyp": "npm",
    "Library/Caches": "",
}
"""Caches in the home directory, with the program for which a missing one is created."""

HOLDS_PROGRAMS = frozenset({".deno"})
"""Caches that contain a directory of programs, which commands cannot change (`STARTUP_FILES`)."""

CACHE_VARIABLES = (
    *("XDG_CACHE_HOME", "npm_config_cache", "PIP_CACHE_DIR", "UV_CACHE_DIR", "GOCACHE", "GOMODCACHE"),
    *("YARN_CACHE_FOLDER", "PRE_COMMIT_HOME", "CCACHE_DIR", "SCCACHE_DIR", "PYTHONPYCACHEPREFIX"),
)
"""Variables that name a cache."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/sys")
"""Directories of the system that reading commands may read."""

READABLE_AT_HOME = (".gitconfig", ".config/git", ".ripgreprc", ".config/ripgrep", ".editorconfig", ".inputrc")
"""Files in the home directory that programs of reading commands are configured by."""

PROGRAMS_IN_LOCAL = (
    *("lib", "lib64", "libexec", "pipx", "share/pipx", "share/uv/tools", "share/uv/python", "share/mise/installs"),
    *("share/mise/shims", "share/rtx", "share/fnm", "share/pnpm", "share/man"),
)
"""Directories in `~/.local` that belong to the programs in `~/.local/bin`. Others there are data of all programs."""

LIBRARY_NAMES = frozenset({"lib", "lib64", "libexec", "versions", "conda-meta"})
"""Names beside a directory of programs, where they were installed together."""

USER_DIRECTORIES = frozenset({".local", ".config", ".cache", ".var"})
"""Directories with the data of many programs of a user."""


def start_files(home: str) -> tuple[str, ...]:
    """Return the start files of this home directory by real path, also those that do not exist."""
    return tuple(os.path.realpath(os.path.join(home, name)) for name in STARTUP_FILES)


def is_kept(path: str, starts: Iterable[str]) -> bool:
    """Return True for a real path that stays unchanged wherever it is: a start file, a part of git, an agent's file.

    `starts` are the start files. An approval opens no such path. A project's own `.git` is open but for the files of
    `GIT_FILES`.
    """
    return is_protected(path) or any(path == one or path.startswith(f"{one}/") for one in starts)
