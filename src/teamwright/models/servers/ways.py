"""What to type to a local server: to start it, to widen its window, to give it a model.

Texts alone: nothing is run, and nobody is asked. The commands are those of each server's own documentation.
"""

from __future__ import annotations

ROOM = 65_536
"""The window that is asked for, in tokens: a team needs about as much."""

_SERVE = {
    "ollama": "OLLAMA_CONTEXT_LENGTH={room} ollama serve",
    "llamacpp": "llama-server -m FILE.gguf --jinja -c {room}",
    "vllm": "vllm serve {model} --max-model-len {room} --enable-auto-tool-choice --tool-call-parser NAME",
    "sglang": "sglang serve --model-path {model} --context-length {room} --tool-call-parser NAME",
    "lmstudio": "lms server start",
}
_WIDEN = {**_SERVE, "lmstudio": "lms load {model} --context-length {room}"}
_GET = {
    "ollama": "ollama pull {model}",
    "lmstudio": "lms get {model}",
    "llamacpp": _SERVE["llamacpp"],
    "vllm": _SERVE["vllm"],
    "sglang": _SERVE["sglang"],
}
_FIRST = {
    "ollama": "stop the one that runs first; ",
    "llamacpp": "stop the one that runs first; ",
    "vllm": "stop the one that runs first; ",
    "sglang": "stop the one that runs first; ",
}


def to_start(provider: str, model: str = "MODEL") -> str:
    """The command that starts a server of that kind; empty for one that we do not know."""
    return _SERVE.get(provider, "").format(room=ROOM, model=model)


def to_get(provider: str, model: str = "MODEL") -> str:
    """The command that gives it a model; empty for one that we do not know."""
    return _GET.get(provider, "").format(room=ROOM, model=model)


def to_widen(provider: str, model: str, tokens: int) -> str:
    """What gives it a window for a conversation of so many tokens, with what is to be done before."""
    room = max(ROOM, 2 ** (tokens * 2 - 1).bit_length())
    known = _WIDEN.get(provider)
    do = known.format(room=room, model=model) if known else f"give the server a window of {room:,} tokens"
    return f"{do}          ({_FIRST.get(provider, '')}64k or more for a team)"
