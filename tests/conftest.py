"""Hypothesis profiles: the same examples everywhere, no timing."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "drfh",
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("drfh")
