"""Second-order Bellman residual minimisation with neural networks."""

from gaussbell import (
    actions,
    datasets,
    diagnostics,
    encodings,
    environments,
    features,
    iteration,
    linalg,
    neighbours,
    networks,
    policies,
    rollouts,
    solvers,
    tasks,
)
from gaussbell.derivatives import differential_map
from gaussbell.evaluation import evaluate, linearise, msbe
from gaussbell.evaluation_files import load_evaluation, save_evaluation
from gaussbell.iteration import Recipe, policy_iteration
from gaussbell.least_squares import least_squares
from gaussbell.logs import Log
from gaussbell.mdp import FiniteMDP, MarkovChain
from gaussbell.networks import MLP, FeatureNetwork, ValueFunction
from gaussbell.offline import OfflineEvaluation, evaluate_offline
from gaussbell.policy_evaluation import PolicyEvaluation, evaluate_policy
from gaussbell.policy_files import load_policy, save_policy
from gaussbell.policy_solution import IterationInterrupted, PolicySolution, PolicyStatus
from gaussbell.sampling import LambdaReturn, sample_transitions
from gaussbell.solution import History, Solution, SolveFailed, SolveInterrupted, Status
from gaussbell.solve import Progress
from gaussbell.solvers import (
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
from gaussbell.transitions import Transitions

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "BacktrackingGaussNewton",
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
    "datasets",
    "diagnostics",
    "differential_map",
    "encodings",
    "environments",
    "evaluate",
    "evaluate_offline",
    "evaluate_policy",
    "features",
    "iteration",
    "least_squares",
    "linalg",
    "linearise",
    "load_evaluation",
    "load_policy",
    "msbe",
    "neighbours",
    "networks",
    "policies",
    "policy_iteration",
    "rollouts",
    "sample_transitions",
    "save_evaluation",
    "save_policy",
    "solvers",
    "tasks",
]
