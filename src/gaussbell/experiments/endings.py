"""Why restart or end matters for policy iteration, and how long the paths should be.

After a restart Cart Pole's Q-factors are those with an end, times a constant: 1 - discount V(start). So the
truly greedy policy is the same, and what differs is the fit. Is it the size of the target? Then scaled
rewards would do the same. Is it the state that every failing transition is tied to? Then a restart elsewhere
would not. And where is the fit better? At the states to which the truly greedy policy leads.

Three questions: what ten sweeps reach, what one improvement of a known policy does to Q, to its choices and
to what they lead to, and how well Q tells actions apart where the truly greedy policy leads.
"""

import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell import figures
from gaussbell.control import Fresh, Mixed, Starts, Uniform, Visited
from gaussbell.control.experience import Experience
from gaussbell.control.recipe import Evaluation
from gaussbell.experiments.control import (
    CAR,
    CART,
    agreement,
    environment,
    iterate,
    solved_and_score,
    solved_of,
)
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import BEYOND, Claim, Data, Finding, Study, all_of, select, settings
from gaussbell.numerics.arguments import as_key
from gaussbell.numerics.precision import double_throughout
from gaussbell.processes.policies import AlongVelocity, Constant, Greedy
from gaussbell.records.cells import Cell, xarray

SWEEPS, IMPROVE, GAP = "sweeps", "improve", "gap"
"""The three questions."""
RESTART, ELSEWHERE, END, SCALED = "restart", "restart elsewhere", "end", "end, scaled rewards"
ENDINGS = (RESTART, ELSEWHERE, END, SCALED)
FAR = (1.5, -0.8, 0.1, 0.5)
"""A start from which the cart goes on for some time, far from where a good policy keeps it."""
STATES = Mixed(Uniform(250), Visited(200), Starts(50))
LONGEST = 1000
"""Steps after which a policy counts as never failing."""
TESTED = 800
MAX_STEPS = 150
MATTERS = 1e-3
"""A difference of Q-factors by which one action is truly better than another."""
MEDIUM = 20
"""The n_step at which the endings differ most."""

TITLE = "Restart or end, and paths of which length? Why it matters for policy iteration"
CLAIMS = (
    Claim("ten-sweeps", BEYOND, "Ten sweeps solve Cart Pole more often with a restart than with an end."),
    Claim(
        "one-improvement",
        BEYOND,
        "After one improvement with a restart the pole stands twice as long, or more.",
    ),
    Claim(
        "not-the-scale", BEYOND, "It is not the size of the target: scaled rewards with an end do no better."
    ),
    Claim(
        "where-it-leads", BEYOND, "It is where the restart leads: a restart elsewhere loses the advantage."
    ),
    Claim("gap", BEYOND, "With a restart Q tells actions apart best where the truly greedy policy leads."),
)


def lean(state: Any) -> Any:
    """Push the cart to where the pole leans: Cart Pole then lasts some forty steps."""
    return (state[2] > 0).astype(int)


KNOWN = {
    (CART, "poor"): Constant(0),
    (CART, "fair"): lean,
    (CAR, "poor"): Constant(2),
    (CAR, "fair"): AlongVelocity(),
}
"""Policies to improve once: one that fails at once or never arrives, and one that does fairly well."""


def cells(scale: Scale) -> list[Cell]:
    """Every run."""
    n_steps, sweeps, seeds, gap_seeds = (
        ((1, MEDIUM), 2, 1, 1) if scale is Scale.SMOKE else ((1, MEDIUM, 100), 10, 3, 8)
    )
    loop = [
        {
            "question": SWEEPS,
            "problem": problem,
            "ending": ending,
            "n_step": n,
            "sweeps": sweeps,
            "seed": 1300 + k,
        }
        for problem in (CART, CAR)
        for ending in (RESTART, END)
        for n in n_steps
        for k in range(seeds)
    ]
    improve = [
        {
            "question": IMPROVE,
            "problem": problem,
            "policy": policy,
            "ending": ending,
            "n_step": n,
            "seed": 1300 + k,
        }
        for problem, policy in KNOWN
        for ending in (RESTART, END)
        for n in n_steps
        for k in range(seeds)
    ]
    gap = [
        {"question": GAP, "problem": CART, "policy": "fair", "ending": ending, "n_step": n, "seed": 1600 + k}
        for ending in ENDINGS
        for n in n_steps
        for k in range(gap_seeds)
    ]
    return loop + improve + gap


@double_throughout
def measure(cell: Cell) -> Data:
    """Iterate, or improve once."""
    return xarray.Dataset({SWEEPS: _iterate, IMPROVE: _improve, GAP: _tell_apart}[cell["question"]](cell))


def _iterate(cell: Cell) -> dict[str, Any]:
    """Transitions of n steps from the same states, with either ending and without epsilon."""
    env = environment(cell["problem"], cell["ending"])
    data = Fresh(STATES, n_step=cell["n_step"])
    recipe = gb.control.default_recipe(env.task)._replace(data=data, evaluation=Evaluation(epsilon=0.0))
    told = iterate(env, cell, recipe)[1]
    return {name: told[name] for name in ("solved", "used", "score", "elapsed")}


def _improve(cell: Cell) -> dict[str, Any]:
    """A known policy evaluated once: how good is Q as a value, in its choices, and in what they lead to?"""
    env, policy = environment(cell["problem"], cell["ending"]), KNOWN[cell["problem"], cell["policy"]]
    keys = [as_key(10 * cell["seed"] + k) for k in range(6)]
    seen = Experience(env, keys[0])
    seen.rolled = seen.play(policy, 10, env.task.length, "roll-outs", key=keys[1])
    data = Fresh(STATES, n_step=cell["n_step"]).transitions(seen, policy, 0.0, keys[2])
    fit = _fit(env, data, keys[3])
    state = Mixed(Uniform(500), Visited(500))(seen, keys[4])
    state = state[~np.asarray(jax.vmap(env.episodic.terminal)(state))]
    actions = (0, env.actions.count - 1)
    q = np.stack([_q_of(fit, state, action) for action in actions])
    truth = np.stack(
        [gb.monte_carlo.returns(env, policy, state, action=np.full(len(state), a)) for a in actions]
    )
    better, truly_better = q[1] - q[0], truth[1] - truth[0]
    matters = np.abs(truly_better) > MATTERS
    log = seen.play(Greedy(fit.network, env.actions.count), 30, env.task.length, "roll-outs", key=keys[5])
    return {
        "before": float(env.task.score(seen.rolled).mean()),
        "after": float(env.task.score(log).mean()),
        "correlation": agreement(q.ravel(), truth.ravel())["correlation"],
        "matters_where_visited": float(matters[-500:].mean()),
        "right": float((better * truly_better > 0)[matters].mean()),
    }


def _tell_apart(cell: Cell) -> dict[str, Any]:
    """Evaluate `lean` once with this ending: how do the policy greedy in Q, and Q itself, do?

    `after`, the steps of the new policy; `gap`, the correlation of Q(s, right) - Q(s, left) with its true
    value where the truly greedy policy leads.
    """
    ending = cell["ending"]
    env: Any = gb.environments.CartPole(
        ending="end" if ending in (END, SCALED) else "restart",
        start=FAR if ending == ELSEWHERE else (0.0, 0.0, 0.0, 0.0),
    )
    keys = [as_key(10 * cell["seed"] + k) for k in range(5)]
    played = Experience(gb.environments.CartPole(), keys[0])
    seen = Experience(env, keys[0])
    seen.rolled = played.play(lean, 10, env.task.length, "roll-outs", key=keys[1])
    data = Fresh(STATES, n_step=cell["n_step"]).transitions(seen, lean, 0.0, keys[2])
    if ending == SCALED:
        value = gb.monte_carlo.returns(gb.environments.CartPole(), lean, np.zeros((1, 4)))[0]
        data = eqx.tree_at(lambda rows: rows.reward, data, data.reward * (1 - env.discount * value))
    fit = _fit(env, data, keys[3])
    log = played.play(Greedy(fit.network, 2), 30, env.task.length, "roll-outs", key=keys[4])
    state, truth = _true_gaps()
    gap = _q_of(fit, state, 1) - _q_of(fit, state, 0)
    return {
        "after": float(env.task.score(log).mean()),
        "gap": float(np.corrcoef(gap, truth)[0, 1]) if gap.std() > 0 else 0.0,
    }


def _fit(env: gb.environments.Simulator, data: Any, key: Any) -> Any:
    network = gb.control.default_network(env, key)
    return gb.evaluate(network, data, solver=gb.LevenbergMarquardt(), max_steps=MAX_STEPS, diagnose=False)


def _q_of(fit: Any, state: np.ndarray, action: int) -> np.ndarray:
    return np.asarray(fit.network(np.column_stack([state, np.full(len(state), action)])))


@functools.cache
def _true_gaps() -> tuple[np.ndarray, np.ndarray]:
    """States to which the policy truly greedy in Q of `lean` leads, and by how much right is better there."""
    pole = gb.environments.CartPole(ending="end")
    rng = np.random.default_rng(1)
    start = rng.uniform(-0.05, 0.05, (40, 4))
    visited, alive = (np.asarray(part) for part in _play_greedily(pole, jnp.asarray(start)))
    state = visited[alive]
    state = state[rng.integers(0, len(state), TESTED)]
    q = [gb.monte_carlo.returns(pole, lean, state, action=np.full(TESTED, action)) for action in (0, 1)]
    return state, q[1] - q[0]


@eqx.filter_jit
def _play_greedily(pole: Any, start: Any) -> tuple[Any, Any]:
    """Episodes of the policy that takes the action after which `lean` fails later: states; is it alive?"""

    def lasts(state: Any, action: int) -> Any:
        def step(carry, number):
            state, alive = carry
            state = pole.move(state, jnp.where(number == 0, action, lean(state)))
            alive = alive & ~pole.failed(state)
            return (state, alive), alive

        return jax.lax.scan(step, (state, jnp.asarray(True)), jnp.arange(LONGEST))[1].sum()

    def play(state: Any) -> tuple[Any, Any]:
        def step(carry, _):
            state, alive = carry
            left, right = lasts(state, 0), lasts(state, 1)
            action = jnp.where(left == right, lean(state), (right > left).astype(int))
            moved = pole.move(state, action)
            return (moved, alive & ~pole.failed(moved)), (state, alive)

        return jax.lax.scan(step, (state, jnp.asarray(True)), None, length=500)[1]

    return jax.vmap(play)(start)


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to."""
    loops = {ending: select(data, question=SWEEPS, problem=CART, ending=ending) for ending in (RESTART, END)}
    runs = {ending: select(data, question=GAP, ending=ending, n_step=MEDIUM) for ending in ENDINGS}
    after = {ending: float(np.median(found.after)) for ending, found in runs.items()}
    gap = {ending: float(np.median(found.gap)) for ending, found in runs.items()}
    told = {ending: f"{steps:.0f} steps with {ending}" for ending, steps in after.items()}
    return {
        "ten-sweeps": Finding(
            f"{solved_of(loops[RESTART])} with a restart, {solved_of(loops[END])} with an end",
            all_of(loops[RESTART].solved.sum() > loops[END].solved.sum()),
        ),
        "one-improvement": Finding(f"{told[RESTART]}, {told[END]}", all_of(after[RESTART] > 2 * after[END])),
        "not-the-scale": Finding(f"{told[SCALED]}, {told[END]}", all_of(after[SCALED] < 1.25 * after[END])),
        "where-it-leads": Finding(
            f"{told[ELSEWHERE]}, {told[RESTART]}", all_of(after[ELSEWHERE] < after[RESTART] / 2)
        ),
        "gap": Finding(
            "correlation of differences with the true ones: "
            + ", ".join(f"{number:.2f} with {ending}" for ending, number in gap.items()),
            all_of(gap[RESTART] > max(number for ending, number in gap.items() if ending != RESTART)),
        ),
    }


def tabulate(data: Data) -> str:
    """What ten sweeps reach, and what one improvement does."""
    n_steps = [int(n) for n in settings(data, "n_step")]
    loops = select(data, question=SWEEPS)
    lines = _head(
        f"{int(loops.sweeps[0])} sweeps: problem, ending", [f"n_step {n}: solved, score" for n in n_steps]
    )
    for problem in (CART, CAR):
        for ending in (RESTART, END):
            found = [select(loops, problem=problem, ending=ending, n_step=n) for n in n_steps]
            lines.append(f"| {problem}, {ending} | {' | '.join(map(solved_and_score, found))} |")
    lines += [
        "",
        *_head("one improvement of", [f"n_step {n}: steps, right choices, correlation" for n in n_steps]),
    ]
    for problem, policy in KNOWN:
        for ending in (RESTART, END):
            wanted = {"question": IMPROVE, "problem": problem, "policy": policy, "ending": ending}
            found = [select(data, **wanted, n_step=n) for n in n_steps]
            entries = [
                f"{_median(r, 'after'):.0f}, {_median(r, 'right'):.0%}, {_median(r, 'correlation'):.2f}"
                for r in found
            ]
            before, matters = (_median(found[0], field) for field in ("before", "matters_where_visited"))
            about = f"{before:.0f}; actions matter in {matters:.0%}"
            lines.append(f"| {problem}, {policy} policy ({about}), {ending} | {' | '.join(entries)} |")
    lines += [
        "",
        "The mean score of the policy greedy in Q, that of the old one in brackets; how often Q prefers "
        "the truly better of two actions, where one is; correlation of Q with the true one. In brackets "
        "also: at how many visited states the first action changes the true Q at all.",
        "",
        *_head(
            f"Cart Pole, fair policy, {len(settings(data, 'seed', question=GAP))} seeds",
            [f"n_step {n}: steps after, gap" for n in n_steps],
        ),
    ]
    for ending in ENDINGS:
        found = [select(data, question=GAP, ending=ending, n_step=n) for n in n_steps]
        entries = [f"{_median(runs, 'after'):.0f}, {_median(runs, 'gap'):.2f}" for runs in found]
        lines.append(f"| {ending} | {' | '.join(entries)} |")
    note = (
        "Medians. Gap: the correlation of Q(s, right) - Q(s, left) with its true value, at states to which "
        "the truly greedy policy leads. Q after a restart is Q with an end times a constant."
    )
    return "\n".join([*lines, "", note, ""])


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """How long the pole stands after one improvement, and how well Q tells actions apart, by ending."""
    caption = (
        "One improvement of a policy that lasts some forty steps, a dot a seed, the bar their median. A "
        "restart at the upright pole ties every failing transition to the states where a good policy "
        "stays; scaled rewards, or a restart elsewhere, do not do the same."
    )
    n_steps = [int(n) for n in settings(data, "n_step", question=GAP)]
    with figures.panels(2, title="Cart Pole: restart or end?", caption=caption) as (figure, axes):
        fields = (
            ("after", "The new policy", "mean steps survived"),
            ("gap", "Its Q", "correlation of differences"),
        )
        for panel, (field, name, label) in zip(axes, fields, strict=True):
            for number, (ending, colour) in enumerate(zip(ENDINGS, figures.PALETTE, strict=False)):
                places = np.arange(len(n_steps)) + 0.18 * (number - 1.5)
                for place, n in zip(places, n_steps, strict=True):
                    found = select(data, question=GAP, ending=ending, n_step=n)[field].values
                    panel.plot(np.full(len(found), place), found, ".", color=colour, ms=5, alpha=0.6)
                    panel.plot([place - 0.07, place + 0.07], [np.median(found)] * 2, color=colour, lw=2.5)
                panel.plot([], [], color=colour, lw=2.5, label=ending)
            panel.set_xticks(range(len(n_steps)), [str(n) for n in n_steps])
            panel.set(title=name, xlabel="n_step", ylabel=label)
        axes[0].legend(fontsize=7)
    return {"endings": figure}


def _head(first: str, columns: list[str]) -> list[str]:
    return [f"| {first} | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]


def _median(runs: Data, field: str) -> float:
    return float(np.median(runs[field]))


def _group(cell: Cell) -> Any:
    return [cell["question"], cell["problem"], cell.get("policy"), cell["n_step"]]


def _cost(cell: Cell) -> float:
    return 1.5 * cell["sweeps"] if cell["question"] == SWEEPS else 5.0


STUDY = Study("endings", TITLE, CLAIMS, cells, measure, _group, _cost, check, tabulate, draw)
