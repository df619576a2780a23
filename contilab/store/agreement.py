"""Two attempts at one run: do they agree? Nondeterminism is a finding, not an accident to be overwritten."""

from typing import Any

from contilab.store.result import Manifest

ACC_TOLERANCE = 0.05  # chosen: finds a wrong run, not rounding


def disagreement(kept: Manifest, late: Manifest) -> dict[str, Any] | None:
    """Return what differs between the published result *kept* and a later one, or None if they agree.

    In equal circumstances the compared files must be equal; otherwise final accuracy must agree within 0.05. Where one has no
    accuracy, only the states are compared.
    """
    if kept.state != late.state:
        return {"what": "state", "kept": kept.state, "late": late.state}
    if kept.circumstances and kept.circumstances == late.circumstances:
        names = _unequal_files(kept, late)
        return {"what": "files", "names": names} if names else None
    if kept.acc is not None and late.acc is not None and abs(kept.acc - late.acc) > ACC_TOLERANCE:
        return {"what": "acc", "kept": kept.acc, "late": late.acc}
    return None


def _unequal_files(kept: Manifest, late: Manifest) -> list[str]:
    files = {**kept.files, **late.files}
    compared = sorted(name for name, facts in files.items() if facts["compared"])
    return [name for name in compared if _sha256(kept, name) != _sha256(late, name)]


def _sha256(manifest: Manifest, name: str) -> str:
    return str(manifest.files.get(name, {}).get("sha256", ""))
