"""Hypothesis profiles: a short, repeatable one for every run, and `HYPOTHESIS_PROFILE=full` for 20,000 resources."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile("default", deadline=None, derandomize=True, database=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("full", deadline=None, database=None, suppress_health_check=SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
