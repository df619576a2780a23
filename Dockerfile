# contilab for machines without a GPU. Dockerfile.cuda is the same but for where torch comes from; docker/README.md tells how to use both.
#
#   docker build -t contilab .
#   docker run --rm -v contilab:/store contilab plan manifests/smoke.toml

# What both stages below build on: Python, and nothing else.
FROM debian:bookworm-slim AS python
# versions of Debian's packages are those of a stable release; a pinned one vanishes with its next security update
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/*

# The requirements alone: a change of any other line of pyproject.toml leaves the layers after it as they are.
FROM python AS requirements
COPY pyproject.toml /
RUN python3 -c 'import tomllib; p = tomllib.load(open("/pyproject.toml", "rb"))["project"]; \
    print(*p["dependencies"], *p["optional-dependencies"]["report"], sep="\n")' > /requirements.txt

# The environment with all but contilab itself.
FROM python AS dependencies
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/contilab
WORKDIR /src
COPY docker/constraints.txt .
COPY --from=requirements /requirements.txt .
# Both may be empty: torch then comes from PyPI, as a CUDA build. pip reads PIP_FIND_LINKS, a folder or page of wheels, by itself.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_FIND_LINKS
# the constraints by variable, so that they hold in the environment that pip builds the wheel in too
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN /opt/contilab/bin/pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r requirements.txt

FROM dependencies AS wheel
COPY pyproject.toml README.md LICENSE ./
COPY contilab contilab
RUN /opt/contilab/bin/pip wheel --no-deps --wheel-dir /wheel .

# What is run.
FROM python
LABEL org.opencontainers.image.title="contilab" \
      org.opencontainers.image.description="Containerised batch training for continual-learning studies" \
      org.opencontainers.image.licenses="MIT"
# Fashion-MNIST, so that real studies run without a network; certificates, for data that a study downloads
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates dataset-fashion-mnist \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 1000 --create-home contilab \
 && chmod 1777 /home/contilab \
 && install -d -m 1777 /store
# the dependencies are a layer of their own: they are large and change rarely
COPY --from=dependencies /opt/contilab /opt/contilab
COPY --from=wheel /wheel /wheel
RUN /opt/contilab/bin/pip install --no-cache-dir --no-index --no-deps /wheel/*.whl
# USER and HOME by name: `--user 1234:1234` has no line in /etc/passwd, and libraries that keep caches look for both;
# what contilab itself downloads stays on the volume
ENV PATH=/opt/contilab/bin:$PATH HOME=/home/contilab USER=contilab CONTILAB_STORE=/store CONTILAB_CACHE=/store/cache
WORKDIR /app
COPY manifests manifests
USER 1000:1000
VOLUME /store
ENTRYPOINT ["contilab"]
