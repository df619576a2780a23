# every recipe works from a checkout once `sh docker/install.sh test` has run
set positional-arguments

# a small real study from data inside the package: plan, run, report, in under a minute
demo *options:
    .venv/bin/contilab demo "$@"

# the fast tests; `just test -m slow` runs the slow ones
test *options:
    .venv/bin/pytest "$@"

# what must hold before a commit: format, lint and types
check:
    .venv/bin/ruff format --check .
    .venv/bin/ruff check .
    .venv/bin/mypy
    .venv/bin/hadolint Dockerfile Dockerfile.cuda

# put the runs of a manifest into the store: just plan manifests/digits.toml matrix.seed=[0,1]
plan manifest="manifests/smoke.toml" *values:
    .venv/bin/contilab plan "$@"

# train what is planned, until nothing is left
run *options:
    .venv/bin/contilab run "$@"

# write the tables, figures and the page of a study
report study="smoke" *options:
    .venv/bin/contilab report "$@"

# training speed of this machine, in samples per second
bench *options:
    .venv/bin/contilab bench "$@"

# the image for machines without a GPU
image *options:
    docker build ${CONTILAB_BUILD_ARGS:-} -t contilab "$@" .

# the image for machines with an NVIDIA GPU
image-cuda *options:
    docker build ${CONTILAB_BUILD_ARGS:-} -f Dockerfile.cuda -t contilab:cuda "$@" .
