"""Decision processes: actions, policies, and finite models with their exact answers."""

from gaussbell.processes import actions, policies
from gaussbell.processes.finite_mdp import FiniteMDP, OptimalSolution
from gaussbell.processes.markov_chain import MarkovChain

__all__ = ["FiniteMDP", "MarkovChain", "OptimalSolution", "actions", "policies"]
