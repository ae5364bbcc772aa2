"""An answer whose stream pauses until the test continues it."""

import threading
from collections.abc import Iterator, Sequence

from teamwright.testing.model_server_replies import Answer, Raw, answer_events, encode_event
from tests.support.waits import WAIT_S


class Pause(Sequence[bytes]):
    """The chunks of an answer, with a pause after a text."""

    def __init__(self, text: str, pause_after: str) -> None:
        self.events = list(answer_events(Answer(text)))
        self.before = len(pause_after)
        self.continues = threading.Event()
        self.size = len(text)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, at: int) -> bytes:
        return list(self)[at]

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        for event in self.events:
            if sent < self.size and sent >= self.before and not self.continues.wait(WAIT_S):
                raise AssertionError("the answer was never continued")
            yield encode_event(event)
            sent += len(event.get("delta", {}).get("text", ""))


def paused(text: str, pause_after: str) -> tuple[Raw, threading.Event]:
    """Return a reply that pauses once the text up to `pause_after` is sent, and the event that continues it."""
    chunks = Pause(text, text[: text.index(pause_after) + len(pause_after)])
    return Raw(chunks), chunks.continues
