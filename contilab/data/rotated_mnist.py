"""Rotated MNIST: in each task all digits are turned by another angle, 180 t / T degrees by default; pixels / 255.

Bilinear, zero outside the image. `benchmark.angles` gives other angles; (0, 80, 160) is the case in which the stability gap was
described (De Lange, van de Ven, Tuytelaars 2023). The task order seed shuffles the angles.
"""

from contilab.data.class_table import order_of
from contilab.data.contract import Source
from contilab.data.origin import refuse_foreign
from contilab.data.published import MNIST
from contilab.data.rotation import rotated
from contilab.data.transformed import Images, Show, transformed_source
from contilab.errors import InputError
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data


def rotated_mnist(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Rotated MNIST for *spec*; *data*: those of a run that was planned."""
    refuse_foreign(spec, "data", "angles")
    angles = angles_of(spec)

    def show_of(_digest: str, _features: int) -> Show:
        def show(task: int, images: Images) -> Images:
            return rotated(images, angles[task])

        return show

    return transformed_source(MNIST, spec, data, show_of)


def angles_of(spec: Benchmark) -> tuple[float, ...]:
    """Return the angle of each task in degrees; InputError if *spec* lists another number of angles than of tasks.

    >>> angles_of(Benchmark(name="rotated_mnist", scenario="domain", tasks=4))
    (0.0, 45.0, 90.0, 135.0)
    """
    angles = spec.angles or tuple(180 * task / spec.tasks for task in range(spec.tasks))
    if len(angles) != spec.tasks:
        problem = f"{len(angles)} angles for {spec.tasks} tasks"
        raise InputError("benchmark.angles", problem, hint=f"set benchmark.tasks = {len(angles)}, or list one angle per task")
    return tuple(angles[task] for task in order_of("task", spec.task_order_seed, spec.tasks))


ENTRY = Entry(
    make=rotated_mnist,
    numerics="rotated_mnist/1",
    summary=(
        "All digits of MNIST in every task, turned by another angle in each. "
        "Domain-incremental; 180 t / tasks degrees, or those of benchmark.angles."
    ),
    paper="Lopez-Paz, Ranzato (2017), Gradient episodic memory for continual learning",
)
