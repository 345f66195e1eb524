"""All tests run in double precision; warnings are errors (see pyproject.toml)."""

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)

hypothesis.settings.register_profile(
    "gaussbell", deadline=None, derandomize=True, max_examples=25, database=None
)
hypothesis.settings.load_profile("gaussbell")


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Hundreds of compiled programs in one process exhaust its memory maps."""
    yield
    jax.clear_caches()
