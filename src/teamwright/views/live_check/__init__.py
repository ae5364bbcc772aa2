"""The live check of a model: the smallest requests that show what a team needs of it."""

from teamwright.views.live_check.check_plan import LiveCheckPlan, plan_live_check
from teamwright.views.live_check.live_check import LiveCheck, LiveCheckResult, perform_live_check

__all__ = ["LiveCheck", "LiveCheckPlan", "LiveCheckResult", "perform_live_check", "plan_live_check"]
