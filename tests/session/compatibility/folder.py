"""A repository as somebody leaves it who has worked with the other product for a year, and that person's own files."""

import json
from pathlib import Path

SETTINGS = {
    "model": "sonnet",
    "permissions": {
        "allow": ["Bash(npm run test:*)", "Read(~/.zshrc)"],
        "ask": ["Bash(git push:*)"],
        "deny": ["Read(./.env)"],
        "additionalDirectories": ["../docs/"],
        "defaultMode": "acceptEdits",
    },
    "env": {
        "NODE_ENV": "test",
        "ANTHROPIC_API_KEY": "sk-theirs",
        "ANTHROPIC_BASE_URL": "http://elsewhere.example",
        "AWS_SECRET_ACCESS_KEY": "theirs",
        "HTTPS_PROXY": "http://elsewhere.example",
    },
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "cat >> seen.jsonl"}]}],
        "PostToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "true"}]}],
    },
    "statusLine": {"type": "command", "command": "~/.claude/statusline.sh"},
    "includeCoAuthoredBy": False,
    "apiKeyHelper": "/bin/key",
}
MCP = {
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files", "${FILES_ROOT:-/srv}"], "env": {"LEVEL": "${LEVEL}"}},
        "web": {"type": "http", "url": "https://${WEB_HOST:-example.org}/mcp", "headers": {"X-Team": "${TEAM:-none}"}},
    }
}
REVIEWER = """---
name: reviewer
description: Reads changes and says what is wrong with them.
tools: Read, Grep, MultiEdit, TodoWrite, WebSearch
model: inherit
---
You review changes.
"""
SKILL = """---
name: release-notes
description: Writes release notes from the log.
---
Write notes for $ARGUMENTS.
"""
COMMAND = """---
description: Fix a ticket.
argument-hint: [number] [area]
allowed-tools: Bash(git log:*), Bash(echo:*)
---
Fix ticket $1 in $2, all of it: $ARGUMENTS.
The conventions: @docs/conventions.md
Now: !`echo begun $1`
"""


def put(root: Path, name: str, content: object) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return path


def fill(root: Path, user: Path) -> None:
    """The repository at `root`, and `~/.claude` of its user in `user`."""
    put(root, "AGENTS.md", "Use tabs, says the project.\n")
    put(root, "CLAUDE.md", "@AGENTS.md\n")
    put(root, "docs/conventions.md", "Names are nouns.\n")
    put(root, "web/CLAUDE.md", "The web part: see @notes/one.md\n\n```\n@notes/in-code.md\n```\n")
    notes = ["one", "two", "three", "four", "five", "six", "seven"]
    for at, here in enumerate(notes[:-1]):
        put(root, f"web/notes/{here}.md", f"Note {at + 1}. @{notes[at + 1]}.md\n")
    put(root, "web/notes/seven.md", "Note 7.\n")
    put(root, "web/notes/in-code.md", "Never read.\n")
    put(root, "CLAUDE.local.md", "Only in this checkout.\n")
    put(root, ".claude/settings.json", SETTINGS)
    put(root, ".claude/settings.local.json", {"permissions": {"allow": ["Bash(make:*)"], "defaultMode": "plan"}})
    put(root, ".claude/agents/reviewer.md", REVIEWER)
    put(root, ".claude/skills/release-notes/SKILL.md", SKILL)
    put(root, ".claude/commands/fix.md", COMMAND)
    put(root, ".claude/commands/db/migrate.md", "Migrate $1.\n")
    put(root, ".claude/output-styles/terse.md", "Be terse.\n")
    put(root, ".mcp.json", MCP)
    put(user, "CLAUDE.md", "Answer in English.\n")
    put(user, "settings.json", {"permissions": {"deny": ["WebFetch"]}, "env": {"EDITOR": "vi"}})
    put(user, "agents/scribe.md", "---\nname: scribe\ndescription: Writes.\ntools: Read, Write\n---\nYou write.\n")
    put(user, "agents/reviewer.md", "---\nname: reviewer\ndescription: Mine.\n---\nMine.\n")
    put(user, "skills/haiku/SKILL.md", "---\nname: haiku\ndescription: A poem.\n---\nSeventeen syllables.\n")
    put(user, "commands/standup.md", "What was done since yesterday?\n")
    put(user, "keybindings.json", {})
    put(user, "plugins/config.json", {})
