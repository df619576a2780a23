"""Our own numbers, none of them published: what each short manifest gave when it was recorded, one table per manifest."""
