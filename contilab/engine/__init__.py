"""Training of ensembles: the step, the members, evaluation."""
