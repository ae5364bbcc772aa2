"""The construction of a session's objects. Each gets what it needs from its constructor; arrows name what comes later.

context → event log, models, background jobs → request queue → toolset → agent factory (policies, budget tracker)
agent factory → hooks, MCP servers, watchdog → grants → team (its ports: plans, file watcher, doorbells)
team → team watcher, stop listener, lead → launcher of member processes → session
agent: model, policy → workplace, gate, hooks → tools → prefix → conversation → toolbox, plan mode → agent
turn: agent, message, steering; the lead and each teammate are the steering of their own turns
"""
