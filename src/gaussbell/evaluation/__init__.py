"""The value of a policy: from transitions or a model, from a simulator, from the log of another policy."""

from gaussbell.evaluation.audit import CriticAudit, audit_critic
from gaussbell.evaluation.experience import budget_for
from gaussbell.evaluation.fixed_point import fixed_point
from gaussbell.evaluation.from_data import evaluate, linearise, msbe
from gaussbell.evaluation.from_simulator import EvaluationInterrupted, PolicyEvaluation, evaluate_policy
from gaussbell.evaluation.off_policy import OfflineEvaluation, evaluate_offline

__all__ = [
    "CriticAudit",
    "EvaluationInterrupted",
    "OfflineEvaluation",
    "PolicyEvaluation",
    "audit_critic",
    "budget_for",
    "evaluate",
    "evaluate_offline",
    "evaluate_policy",
    "fixed_point",
    "linearise",
    "msbe",
]
