"""How the engine chooses among its forms of one step on this machine."""
