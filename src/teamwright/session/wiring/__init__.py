"""The parts of a session's process, made and connected: hooks, servers, sandbox, backends, team and worktrees."""
