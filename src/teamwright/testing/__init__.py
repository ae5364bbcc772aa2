"""Fakes for the tests of programs: a loopback model server and a scripted model."""

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, CutPrompt, ErrorEvent, Stall, Status
from teamwright.testing.scripted_model import Call, Say, ScriptedModel

__all__ = ["Answer", "Call", "CutPrompt", "ErrorEvent", "LoopbackModel", "Say", "ScriptedModel", "Stall", "Status"]
