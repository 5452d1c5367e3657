"""Settings of all tests."""

from hypothesis import settings

# A slow example on a busy machine is no defect; pytest-timeout bounds each test.
settings.register_profile("isthmus", deadline=None)
settings.load_profile("isthmus")
