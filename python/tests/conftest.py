"""Settings of all tests: random examples that differ from run to run, and say how to repeat them."""

from datetime import timedelta

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "faltung",
    max_examples=int(os.environ.get("FALTUNG_EXAMPLES", "200")),
    deadline=timedelta(seconds=20),
    derandomize=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("faltung")
