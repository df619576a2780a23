"""The published image sets contilab knows: files, digests, and where they can be had.

Sizes and SHA-256 were computed from the unpacked files; the MD5 of the raw MNIST files agree with those torchvision lists.
"""

from pathlib import Path

from contilab.data.idx_file import KnownFile
from contilab.data.image_set import ImageSet

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"

MNIST = ImageSet(
    name="mnist",
    files=(
        KnownFile(TRAIN_IMAGES, 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        KnownFile(TRAIN_LABELS, 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        KnownFile(TEST_IMAGES, 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        KnownFile(TEST_LABELS, 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
    image_shape=(28, 28),
    train_samples=60_000,
    test_samples=10_000,
    classes=10,
    digest="28a6efcb523bb42b820474b174bcac5f80bef1908f2afdc0662e570649da4485",
    folders=("mnist", "MNIST/raw", "MNIST"),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
)

FASHION_MNIST = ImageSet(
    name="fashion-mnist",
    files=(
        KnownFile(TRAIN_IMAGES, 47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
        KnownFile(TRAIN_LABELS, 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
        KnownFile(TEST_IMAGES, 7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
        KnownFile(TEST_LABELS, 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
    ),
    image_shape=(28, 28),
    train_samples=60_000,
    test_samples=10_000,
    classes=10,
    digest="e325b17998d97c37c24b604370ffbbcab7b8c1c6dd0c25b0671b0e5728f0ecb9",
    folders=("fashion-mnist", "fashion_mnist", "fmnist", "FashionMNIST/raw", "FashionMNIST"),
    system=(Path("/usr/share/datasets/fashion-mnist"),),  # Debian's package dataset-fashion-mnist
    mirrors=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # no https there; every download is checked by SHA-256
    ),
)

PUBLISHED = (MNIST, FASHION_MNIST)
