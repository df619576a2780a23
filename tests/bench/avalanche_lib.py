"""Split Fashion-MNIST by the public interface of avalanche-lib 0.6.0: pixels, net, batch, optimiser and steps of `by_hand.py`.

    AVA_ROOT=DIR NT=2 python tests/bench/avalanche_lib.py naive 0     # prints one line of JSON

DIR/FashionMNIST/raw holds the four unzipped files. It needs no contilab: run it in an environment of its own with
torch==2.13.0 torchvision==0.28.0 avalanche-lib==0.6.0. How a memory is filled and drawn from differs in detail. See `peers.py`.
"""

import json
import os
import statistics
import sys
import time
import warnings

import torch

warnings.simplefilter("ignore")  # its dependencies warn of each other
try:
    import torchvision  # noqa: F401
except (
    RuntimeError
):  # a wheel for GPUs beside torch for processors: its operators on boxes are missing, and nothing here uses them
    boxes = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        boxes.define(f"{name}(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")

from avalanche.benchmarks.classic import SplitFMNIST  # noqa: E402
from avalanche.evaluation.metrics import accuracy_metrics  # noqa: E402
from avalanche.models import SimpleMLP  # noqa: E402
from avalanche.training.determinism.rng_manager import RNGManager  # noqa: E402
from avalanche.training.plugins import EvaluationPlugin  # noqa: E402
from avalanche.training.supervised import Naive, Replay  # noqa: E402
from torchvision.transforms import ToTensor  # noqa: E402

MEMORY = 500


def learner(method):
    """Return the strategy *method* with a new model."""
    model = SimpleMLP(num_classes=10, hidden_size=400, hidden_layers=2, drop_rate=0)
    settings = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05),
        "criterion": torch.nn.CrossEntropyLoss(),
        "train_mb_size": 32,
        "train_epochs": 1,
        "eval_mb_size": 256,
        "device": "cpu",
        "evaluator": EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
    }
    return Replay(mem_size=MEMORY, **settings) if method == "er" else Naive(**settings)


def main():
    """Train one seed."""
    method, seed = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(int(os.environ.get("NT", os.cpu_count() or 1)))
    RNGManager.set_random_seeds(seed)
    stream = SplitFMNIST(
        5,
        seed=None,
        fixed_class_order=list(range(10)),
        shuffle=False,
        dataset_root=os.environ["AVA_ROOT"],
        train_transform=ToTensor(),
        eval_transform=ToTensor(),
    )
    strategy = learner(method)
    begin, found = time.perf_counter(), {}
    for experience in stream.train_stream:
        strategy.train(experience, num_workers=0)
        found = strategy.eval(stream.test_stream, num_workers=0)
    marks = [value for name, value in found.items() if name.startswith("Top1_Acc_Exp")]
    told = {"method": method, "accuracy": statistics.fmean(marks), "seconds": time.perf_counter() - begin}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
