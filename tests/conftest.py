"""What holds for all tests."""

from hypothesis import settings

settings.register_profile("contilab", deadline=None)  # a busy machine makes no property false
settings.load_profile("contilab")
