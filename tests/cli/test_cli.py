"""The command line, as a user types it."""

import json
import sys

import pytest
from typer.testing import CliRunner

import gaussbell as gb
from gaussbell import cli
from gaussbell.experiments import step_time

runner = CliRunner()


def test_table():
    result = runner.invoke(cli.app, ["evaluate", "star"])
    assert result.exit_code == 0, result.output
    for word in ("state", "learned", "exact", "94.336416840", "NMSBE", "converged", "steps", "seconds"):
        assert word in result.stdout


def test_json_and_files(tmp_path):
    out = tmp_path / "run"
    arguments = ["evaluate", "star", "--solver", "gauss-newton", "--damping", "1e-6", "--seed", "3", "--json"]
    result = runner.invoke(cli.app, [*arguments, "--out", str(out)])
    record = json.loads(result.stdout)
    assert record == json.loads((out / "record.json").read_text())
    assert (out / "convergence.png").read_bytes().startswith(b"\x89PNG")
    assert record["settings"]["solver"] == "gauss-newton" and record["settings"]["damping"] == 1e-6
    assert record["result"]["status"] in gb.Status.__members__
    assert len(record["history"]["msbe"]) == record["result"]["steps"] + 1
    assert record["values"]["exact"][0] == pytest.approx(94.33641684)
    assert record["versions"]["gaussbell"] == gb.__version__


def test_same_seed_same_record():
    records = [
        json.loads(runner.invoke(cli.app, ["evaluate", "star", "--seed", "5", "--json"]).stdout)
        for _ in range(2)
    ]
    for record in records:
        record["result"].pop("seconds")
    assert records[0] == records[1]


def test_failure_is_said_and_is_an_exit_code():
    result = runner.invoke(cli.app, ["evaluate", "star", "--max-steps", "3"])
    assert result.exit_code == 1
    assert "out of steps" in result.stdout


def test_option_that_does_not_belong():
    result = runner.invoke(cli.app, ["evaluate", "star", "--step-size", "0.1"])
    assert isinstance(result.exception, ValueError)
    assert "--step-size: levenberg-marquardt has none" in str(result.exception)


def test_errors_are_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gaussbell", "evaluate", "star", "--damping", "0.1"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: --damping") and "Traceback" not in shown


def test_folder_that_cannot_be_written_is_noticed_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    result = runner.invoke(cli.app, ["evaluate", "star", "--out", str(tmp_path / "file")])
    assert isinstance(result.exception, ValueError)
    assert "--out" in str(result.exception) and "NMSBE" not in result.output


@pytest.mark.parametrize("option", [["--seed", "99999999999999999999"], ["--max-steps", "3000000000"]])
def test_numbers_out_of_range(option):
    result = runner.invoke(cli.app, ["evaluate", "star", *option])
    assert result.exit_code == 2


def test_interrupt_shows_what_was_reached(monkeypatch):
    def interrupted(*args, **options):
        def stop(now):
            raise KeyboardInterrupt

        return evaluate(*args, **{**options, "on_progress": stop})

    evaluate = gb.evaluate
    monkeypatch.setattr(gb, "evaluate", interrupted)
    result = runner.invoke(cli.app, ["evaluate", "star"])
    assert result.exit_code == 1
    assert "interrupted" in result.stdout and "NMSBE" in result.stdout


def test_unknown_problem():
    result = runner.invoke(cli.app, ["evaluate", "moon"])
    assert result.exit_code == 2 and "moon" in result.output


def test_version():
    assert runner.invoke(cli.app, ["--version"]).stdout.strip() == f"gaussbell {gb.__version__}"


def test_mountain_car(tmp_path, monkeypatch):
    monkeypatch.setattr("gaussbell.cli.mountain_car.TRUTH_GRID", 12)
    arguments = ["evaluate", "mountain-car", "--samples", "150", "--n-step", "30", "--max-steps", "20"]
    result = runner.invoke(cli.app, [*arguments, "--out", str(tmp_path)])
    assert result.exit_code == 1, result.output  # twenty steps are too few, and that is said
    for word in ("standard deviations", "looking 50", "by the network alone", "with n_step 30"):
        assert word in result.stdout
    record = json.loads((tmp_path / "record.json").read_text())
    assert len(record["true"]) == 12 and (tmp_path / "value.png").read_bytes().startswith(b"\x89PNG")
    assert record["result"]["relative_error"] < 1


def test_bench(tmp_path, monkeypatch):
    small = step_time.Settings((step_time.Size((2, 3, 1), 10, 2),), turns=1, seconds_a_turn=0.0)
    monkeypatch.setattr(step_time, "Settings", lambda: small)
    result = runner.invoke(cli.app, ["bench", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "13 parameters, 10 samples" in result.stdout and "dogleg" in result.stdout
    (size,) = json.loads((tmp_path / "step_time.json").read_text())["results"]
    assert size["milliseconds"]["Gauss-Newton"] > 0 and size["milliseconds"][step_time.FLOOR] > 0


@pytest.fixture
def quick(monkeypatch):
    """Policy iteration on a few transitions."""
    rows = gb.control.Replay(first=20, more=5, visited=10, transitions_per_fit=60)
    recipe = gb.Recipe(rows, gb.control.Evaluation(max_steps=3))
    monkeypatch.setattr("gaussbell.control.iteration.default_recipe", lambda task: recipe)


def test_iterate(tmp_path, quick):
    out, picture = tmp_path / "run", tmp_path / "pole.gif"
    arguments = ["iterate", "cart-pole", "--sweeps", "2", "--out", str(out), "--render", str(picture)]
    result = runner.invoke(cli.app, arguments)
    assert result.exit_code == 1, result.output  # two sweeps are too few
    for word in ("sweep", "kept", "out of sweeps", "training", "confirmation"):
        assert word in result.stdout
    assert picture.read_bytes().startswith(b"GIF89a")
    assert (out / "sweeps.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((out / "record.json").read_text())
    run = record["runs"][0]
    assert run["total"] == sum(run["transitions"].values()) and len(run["history"]) == 2
    assert gb.load_policy(out / "policy.json").policy([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    several = runner.invoke(cli.app, ["iterate", "cart-pole", "--sweeps", "1", "--seeds", "2"])
    assert "0 of 2" in several.stdout and "seed 1: out of sweeps" in several.stdout


def test_iterate_interrupted_keeps_the_policy(tmp_path, monkeypatch, quick):
    def stop(env, **options):
        solution = iterate(env, **{**options, "sweeps": 1, "on_sweep": None})
        raise gb.IterationInterrupted(solution)

    iterate = gb.policy_iteration
    monkeypatch.setattr(gb, "policy_iteration", stop)
    result = runner.invoke(cli.app, ["iterate", "cart-pole", "--out", str(tmp_path)])
    assert result.exit_code == 130 and gb.load_policy(tmp_path / "policy.json").sweeps == 1


def test_iterate_interrupted_before_the_first_sweep(tmp_path, monkeypatch, quick):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gaussbell.control.iteration.evaluate", stop)
    words = ["iterate", "cart-pole", "--out", str(tmp_path), "--report", str(tmp_path / "report.html")]
    result = runner.invoke(cli.app, words)
    assert result.exit_code == 130, result.output
    assert "no sweep was finished" in result.stdout and (tmp_path / "sweeps.png").exists()
    assert gb.load_policy(tmp_path / "policy.json").sweeps == 0


def test_logged_data(tmp_path, monkeypatch):
    walk = gb.environments.ChainWalk(6, success=1.0)
    env = gb.environments.FiniteEnvironment(walk)
    random = gb.policies.EpsilonGreedy(gb.policies.Constant(0), 2, epsilon=1.0)
    log = env.record(random, episodes=30, length=20, key=0)
    gb.datasets.write(tmp_path / "log.parquet", log)
    (tmp_path / "walkers.py").write_text("def right(state):\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    data = ["evaluate", "log", "log.parquet", "--policy", "walkers:right", "--discount", "0.8"]
    result = runner.invoke(cli.app, [*data, "--num-bootstrap", "2", "--max-steps", "40", "--out", "run"])
    record = json.loads((tmp_path / "run/record.json").read_text())
    truth = gb.environments.ChainWalk(6, success=1.0, discount=0.8).under([1] * 6).values[0]
    assert abs(record["result"]["value"] - truth) < 0.05
    assert result.exit_code == (1 if record["result"]["warnings"] else 0)
    assert "90% confidence interval" in result.stdout and (tmp_path / "run/estimate.png").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["log", "log.parquet", "--policy", "nothing"], "give module:name"),
        (["log", "log.parquet", "--policy", "no_module:f"], "it cannot be imported"),
        (["log", "none.parquet", "--policy", "math:cos"], "there is no such file"),
        (["star", "--report", "x.txt"], "choose a name that ends in .html"),
    ],
)
def test_mistakes(options, said):
    result = runner.invoke(cli.app, ["evaluate", *options])
    assert isinstance(result.exception, ValueError) and said in str(result.exception)


def test_audit(tmp_path, monkeypatch):
    (tmp_path / "critics.py").write_text(
        "def stay(state):\n    return 0\n\n\ndef zero(states):\n    return 0 * states[:, 0]\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["audit", "CartPole-v1", "--policy", "critics:stay", "--critic", "critics:zero"]
    words += ["--budget", "1500", "--discount", "0.9"]
    done = runner.invoke(cli.app, [*words, "--out", "out", "--report", "page.html"])
    assert done.exit_code == 1 and "not trusted" in done.output and "our fit" in done.output
    kept = json.loads((tmp_path / "out" / "record.json").read_text())
    assert kept["result"]["bias"] < -3 and (tmp_path / "out" / "audit.png").stat().st_size > 10_000
    assert "Audit of a critic: CartPole-v1" in (tmp_path / "page.html").read_text()
    done = runner.invoke(cli.app, ["report", "out", "--out", "all.html"])
    assert done.exit_code == 0 and "Audit of a critic" in (tmp_path / "all.html").read_text()
    with pytest.raises(ValueError, match="give --model"):
        runner.invoke(cli.app, ["audit", "CartPole-v1"], catch_exceptions=False)


def test_mistakes_are_told_before_the_work(monkeypatch, tmp_path):
    told = runner.invoke(cli.app, ["iterate", "Pendulum-v1"])
    assert "no discrete actions" in str(told.exception) and "sweep" not in told.stdout
    monkeypatch.setattr("gaussbell.cli.render.importlib.util.find_spec", lambda name: None)
    told = runner.invoke(cli.app, ["iterate", "cart-pole", "--render", str(tmp_path / "a.gif")])
    assert isinstance(told.exception, ImportError) and "gaussbell[render]" in str(told.exception)


TYPED = "[red]a:smile:[/b]"
"""What rich would take for markup and an emoji."""


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "log", "x.npz", "--policy", f"a:{TYPED}"],
        ["evaluate", "log", TYPED, "--policy", "math:cos"],
        ["evaluate", "star", "--out", TYPED],
        ["evaluate", "star", "--report", TYPED],
        ["iterate", TYPED],
        ["diagnose", TYPED],
        ["reproduce", TYPED],
        ["reproduce", "star", "--out", TYPED, "--scheduler", "tcp://127.0.0.1:9"],
        ["check", "star", "--out", TYPED],
        ["report", TYPED],
    ],
    ids=" ".join,
)
def test_what_users_typed_is_printed_as_it_is(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    if words[:2] in (["evaluate", "star"], ["reproduce", "star"]):
        (tmp_path / TYPED.partition("/")[0]).write_text("a file where a folder should be")
    monkeypatch.setattr(sys, "argv", ["gaussbell", *words])
    with pytest.raises(SystemExit):
        cli.main()
    assert TYPED in capsys.readouterr().err.replace("\n", "")


def test_where_it_wrote_is_printed_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = runner.invoke(cli.app, ["evaluate", "star", "--out", "[red]a:smile:"])
    assert "Wrote [red]a:smile:/record.json" in told.output
