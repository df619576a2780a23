"""Who this runner is, for people: nothing in the protocol depends on it."""

import os
import platform
import socket
from datetime import UTC, datetime
from typing import Any


def host() -> dict[str, Any]:
    """Return host name, image, process number and start time."""
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "image": os.environ.get("CONTILAB_IMAGE", ""),
        "pid": os.getpid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
