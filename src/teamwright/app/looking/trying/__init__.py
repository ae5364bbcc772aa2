"""Trying a model once, with the smallest requests that show what a team needs of it."""

from teamwright.app.looking.trying.plan import TrialPlan, plan_trial
from teamwright.app.looking.trying.trial import Check, Trial, run_trial

__all__ = ["Check", "Trial", "TrialPlan", "plan_trial", "run_trial"]
