"""Shipped fakes: a loopback model server, a scripted model.

Imported by no room of ours; users test their own teams with them.
"""

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.replies import Answer, CutPrompt, ErrorEvent, Stall, Status
from teamwright.testing.scripted import Call, Say, ScriptedModel

__all__ = ["Answer", "Call", "CutPrompt", "ErrorEvent", "LoopbackModel", "Say", "ScriptedModel", "Stall", "Status"]
