"""Replay memory of an ensemble: which samples are kept, which slot each takes, and which entries are replayed."""
