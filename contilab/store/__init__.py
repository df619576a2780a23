"""The store on disk: the protocol of its README, and nobody else knows a file name."""
