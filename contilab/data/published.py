"""The published image sets contilab knows: files, digests, and where they can be had.

MNIST and Fashion-MNIST: sizes and SHA-256 were computed from the unpacked files; the MD5 of the raw MNIST files agree with
those torchvision lists. CIFAR: the SHA-256 of archives and files are those that Keras, TensorFlow Datasets and torchvision for
Ruby list; the authors publish MD5 only. TinyImageNet: the SHA-256 of the archive is the one several projects record.
"""

from pathlib import Path

from contilab.data.batch_set import BatchFile, BatchSet, Form
from contilab.data.cifar import SHAPE, binary, pickled
from contilab.data.download import Remote, sha256_is
from contilab.data.folder_set import FolderSet
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
    folders=("mnist", "MNIST/raw", "mnist/MNIST/raw", "MNIST"),  # the second is torchvision's, the third Avalanche's
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
    folders=(
        "fashion-mnist",
        "fashion_mnist",
        "fmnist",
        "FashionMNIST/raw",
        "fashionmnist/FashionMNIST/raw",
        "FashionMNIST",
    ),
    system=(Path("/usr/share/datasets/fashion-mnist"),),  # Debian's package dataset-fashion-mnist
    mirrors=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # no https there; every download is checked by SHA-256
    ),
)

TORONTO = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")  # the authors' pages
ARCHIVE_BYTES = 200_000_000  # at most; CIFAR's have 161 to 170 million

CIFAR10 = BatchSet(
    name="cifar10",
    image_shape=SHAPE,
    classes=10,
    train_samples=50_000,
    test_samples=10_000,
    forms=(
        Form(
            "cifar-10-batches-py",
            ("cifar-10-python.tar.gz",),
            pickled(10, "labels"),
            (
                BatchFile("data_batch_1", 10_000, "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb"),
                BatchFile("data_batch_2", 10_000, "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8"),
                BatchFile("data_batch_3", 10_000, "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9"),
                BatchFile("data_batch_4", 10_000, "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b"),
                BatchFile("data_batch_5", 10_000, "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154"),
            ),
            (BatchFile("test_batch", 10_000, "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831"),),
        ),
        Form(
            "cifar-10-batches-bin",
            ("cifar-10-binary.tar.gz",),
            binary(10, 1),
            (
                BatchFile("data_batch_1.bin", 10_000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
                BatchFile("data_batch_2.bin", 10_000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
                BatchFile("data_batch_3.bin", 10_000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
                BatchFile("data_batch_4.bin", 10_000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
                BatchFile("data_batch_5.bin", 10_000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
            ),
            (BatchFile("test_batch.bin", 10_000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),),
        ),
    ),
    remote=Remote(
        "cifar-10-binary.tar.gz",
        tuple(f"{page}cifar-10-binary.tar.gz" for page in TORONTO),
        ARCHIVE_BYTES,
        sha256_is("c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    ),
    folders=("cifar10", "cifar-10", "CIFAR10"),
)

CIFAR100 = BatchSet(
    name="cifar100",
    image_shape=SHAPE,
    classes=100,
    train_samples=50_000,
    test_samples=10_000,
    forms=(
        Form(
            "cifar-100-python",
            ("cifar-100-python.tar.gz",),
            pickled(100, "fine_labels"),
            (BatchFile("train", 50_000, "735e79b04f092ca3d2e6d07f368c0a7d70d48c48d28865950cc24454cf45129b"),),
            (BatchFile("test", 10_000, "4b67687d9933c4db8f0831104447f15b93774f4f464bd0516f0f0f2ac83b7864"),),
        ),
        Form(
            "cifar-100-binary",
            ("cifar-100-binary.tar.gz",),
            binary(100, 2),
            (BatchFile("train.bin", 50_000, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),),
            (BatchFile("test.bin", 10_000, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),),
        ),
    ),
    remote=Remote(
        "cifar-100-binary.tar.gz",
        tuple(f"{page}cifar-100-binary.tar.gz" for page in TORONTO),
        ARCHIVE_BYTES,
        sha256_is("58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),
    ),
    folders=("cifar100", "cifar-100", "CIFAR100"),
)

TINYIMAGENET = FolderSet(
    name="tinyimagenet",
    image_shape=(3, 64, 64),
    classes=200,
    train_samples=100_000,
    test_samples=10_000,
    remote=Remote(
        "tiny-imagenet-200.zip",
        ("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "https://image-net.org/data/tiny-imagenet-200.zip"),
        300_000_000,  # it has 248,100,043 bytes
        sha256_is("6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821"),
    ),
    folders=("tiny-imagenet-200", "tinyimagenet/tiny-imagenet-200", "tinyimagenet"),  # the second is Avalanche's
    tests=("val",),  # the labels of its test pictures are not public
)

IMAGE_SETS = (MNIST, FASHION_MNIST)
KnownSet = ImageSet | BatchSet | FolderSet
KNOWN: dict[str, KnownSet] = {known.name: known for known in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100, TINYIMAGENET)}
