"""Files that are more than files: what runs something for the user, what widens rights, what belongs to others.

A change to a *guarded* file asks in every mode but bypass, whatever a general rule says: a hook, a settings file,
a shell's start file. *Private* directories (the state root: transcripts and mail of other agents, trust) are
denied to file tools. Knows paths. Does not know rules or modes.
"""

from __future__ import annotations

from teamwright.permissions.table import table

_DIRECTORIES = frozenset({".git", ".teamwright", ".claude", ".husky", ".githooks", ".devcontainer", ".ssh", ".gnupg"})
_DIRECTORIES_UNDER = {".github": "workflows", ".vscode": "", ".idea": "", ".config": "", ".circleci": ""}
_FILES = table(
    ".mcp.json .envrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile"
    " .zlogin .zlogout .kshrc .cshrc .tcshrc .login .inputrc .gitconfig .gitmodules .gitattributes .npmrc .yarnrc"
    " .yarnrc.yml .pypirc .netrc .ripgreprc .tool-versions .mise.toml .pre-commit-config.yaml .gitlab-ci.yml"
    " lefthook.yml"
)


def guard_of(path: str) -> str:
    """The name that makes a file guarded (`.git`, `.envrc`), or an empty text. Ignores case."""
    parts = path.lower().split("/")
    if parts and parts[-1] in _FILES:
        return parts[-1]
    for at, part in enumerate(parts):
        if part in _DIRECTORIES:
            return part
        under = _DIRECTORIES_UNDER.get(part)
        if under is not None and (not under or parts[at + 1 : at + 2] == [under]):
            return part
    return ""
