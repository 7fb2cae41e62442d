"""What every test runs under. Speed is measured in benchmarks; on a busy machine it fails no test."""

from hypothesis import HealthCheck, settings

settings.register_profile("membrane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("membrane")
