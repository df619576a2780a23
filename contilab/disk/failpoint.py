"""Named places where a test can end or pause this process, to prove that any other process goes on from there.

Armed by one environment variable, `CONTILAB_FAILPOINT=NAME:KILL` or `NAME:STOP`, with `:K` behind it for the K-th passage.
One-shot: a process that was continued after STOP is not stopped again. Unarmed, a passage is one look into a list.

put_new.written       the temp is complete, the name is not there yet
put_new.linked        the name is there, its directory is not synced yet
checkpoint.half       the first file of a checkpoint is written, the others are not
checkpoint.taken      the checkpoint of the predecessor is in the own directory, nothing is trained yet
output.half           the first file of a result is written, the others are not
manifest.half         half of MANIFEST.json is written, in the directory of the attempt
claim.before          the group lock is held, nothing is claimed yet
claim.linked          the claim is there, without working directory or beat
claim.beating         the first beat is written, the group lock is still held
publish.fenced        no higher generation was seen, nothing is renamed yet
publish.first_renamed the first result of several is in place
publish.renamed       all results are in place, the attempt has no `.end` yet
end.written           the attempt has its `.end`; locks are still held
"""

import os
import signal

VARIABLE = "CONTILAB_FAILPOINT"

_SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


def _armed() -> list[tuple[str, signal.Signals]]:
    """Return one (name, signal) for the armed passage, behind one empty entry for each passage to let through."""
    name, _, rest = os.environ.get(VARIABLE, "").partition(":")
    action, _, passage = rest.partition(":")
    if action not in _SIGNALS:
        return []
    return [*[(name, signal.Signals.SIGCONT)] * (int(passage or 1) - 1), (name, _SIGNALS[action])]


_pending = _armed()  # read once, at import: a fork inherits what is left


def failpoint(name: str) -> None:
    """Send this process the armed signal if *name* is the armed place."""
    if _pending and _pending[0][0] == name:
        os.kill(os.getpid(), _pending.pop(0)[1])
