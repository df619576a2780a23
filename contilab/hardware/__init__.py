"""What this machine is and what it does fastest."""
