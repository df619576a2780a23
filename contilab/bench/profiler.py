"""torch.profiler over a few steps of a group: a trace for a browser, and the operations that take the most time.

A short schedule: the profiler records every operation, so more steps would only make the trace larger, and none that load
libraries or compile belong into it.
"""

from pathlib import Path

from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, schedule  # type: ignore[attr-defined]  # not exported

from contilab.engine.choice.pace import Pace

WAIT, WARM_UP, ACTIVE = 10, 15, 5  # steps
ROWS = 20


def profiled(pace: Pace, trace: Path, *, is_cuda: bool = False) -> str:
    """Train *pace* by 30 steps, write the trace of the last five for Chrome, and return the table of operations."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_cuda else [])]
    order = "self_cuda_time_total" if is_cuda else "self_cpu_time_total"
    plan = schedule(wait=WAIT, warmup=WARM_UP, active=ACTIVE, repeat=1)
    everywhere = _ExperimentalConfig(profile_all_threads=True)  # parts of the members train in threads of their own
    with profile(activities=activities, schedule=plan, acc_events=True, experimental_config=everywhere) as recorder:
        for _ in range(WAIT + WARM_UP + ACTIVE):
            pace.lap(1)
            recorder.step()
    recorder.export_chrome_trace(str(trace))
    table: str = recorder.key_averages().table(sort_by=order, row_limit=ROWS, max_name_column_width=40)
    return table
