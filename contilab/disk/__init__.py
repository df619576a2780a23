"""Writing that is never half done: exclusive creation, atomic directories, locks."""
