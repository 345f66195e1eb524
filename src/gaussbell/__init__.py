"""Second-order Bellman residual minimisation: what is this policy worth?"""

from gaussbell import control, diagnostics, environments, evaluation, networks, records
from gaussbell.control import IterationInterrupted, PolicySolution, PolicyStatus, Recipe, policy_iteration
from gaussbell.data import LambdaReturn, Log, Transitions
from gaussbell.diagnostics import Assessment, assess
from gaussbell.environments import tasks
from gaussbell.evaluation import (
    CriticAudit,
    OfflineEvaluation,
    PolicyEvaluation,
    audit_critic,
    evaluate,
    evaluate_offline,
    evaluate_policy,
    fixed_point,
    linearise,
    msbe,
)
from gaussbell.networks import MLP, FeatureNetwork, ValueFunction, differential_map, encodings, features
from gaussbell.numerics import linalg
from gaussbell.numerics.compilation import keep_compiled
from gaussbell.optimise import (
    History,
    Progress,
    Solution,
    SolveFailed,
    SolveInterrupted,
    Status,
    least_squares,
    solvers,
)
from gaussbell.optimise.solvers import (
    BacktrackingGaussNewton,
    Dogleg,
    FirstOrder,
    GaussNewton,
    LevenbergMarquardt,
    Minibatch,
    ResidualAlgorithm,
    ResidualGradient,
    SemiGaussNewton,
    SemiGradient,
)
from gaussbell.processes import FiniteMDP, MarkovChain, actions, policies
from gaussbell.records import datasets
from gaussbell.records.evaluations import load_evaluation, save_evaluation
from gaussbell.records.policies import load_policy, save_policy
from gaussbell.simulation import monte_carlo, sample_transitions

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "Assessment",
    "BacktrackingGaussNewton",
    "CriticAudit",
    "Dogleg",
    "FeatureNetwork",
    "FiniteMDP",
    "FirstOrder",
    "GaussNewton",
    "History",
    "IterationInterrupted",
    "LambdaReturn",
    "LevenbergMarquardt",
    "Log",
    "MarkovChain",
    "Minibatch",
    "OfflineEvaluation",
    "PolicyEvaluation",
    "PolicySolution",
    "PolicyStatus",
    "Progress",
    "Recipe",
    "ResidualAlgorithm",
    "ResidualGradient",
    "SemiGaussNewton",
    "SemiGradient",
    "Solution",
    "SolveFailed",
    "SolveInterrupted",
    "Status",
    "Transitions",
    "ValueFunction",
    "actions",
    "assess",
    "audit_critic",
    "control",
    "datasets",
    "diagnostics",
    "differential_map",
    "encodings",
    "environments",
    "evaluate",
    "evaluate_offline",
    "evaluate_policy",
    "evaluation",
    "features",
    "fixed_point",
    "keep_compiled",
    "least_squares",
    "linalg",
    "linearise",
    "load_evaluation",
    "load_policy",
    "monte_carlo",
    "msbe",
    "networks",
    "policies",
    "policy_iteration",
    "records",
    "sample_transitions",
    "save_evaluation",
    "save_policy",
    "solvers",
    "tasks",
]
