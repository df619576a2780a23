"""contilab: containerised batch training for continual-learning studies."""
