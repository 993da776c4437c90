# An image of areba: the commands `areba` and `areba-replay`, with their code compiled.
#
#   docker build -t areba:1.0.0 .        (or podman build --format docker -t areba:1.0.0 .)
#
# Only networks of your own (a torch.nn.Module) need Torch. Without it, the image has less than 1 GB:
#
#   docker build --target slim -t areba:1.0.0-slim .
#
# PyPI's Torch brings CUDA, which areba never uses: 3.9 of the image's 5.6 GB. With the INDEX of CPU-only builds that the home page of PyTorch names:
#
#   docker build --build-arg TORCH_INDEX_URL=INDEX -t areba:1.0.0 .

ARG PYTHON_IMAGE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS dependencies
# The processors on which the image runs, as LLVM names them: x86-64-v3 has AVX2 (Haswell, Zen and newer); `generic` for others.
ARG CPU_NAME=x86-64-v3
ENV NUMBA_CPU_NAME=${CPU_NAME} NUMBA_CPU_FEATURES= AREBA_CACHE_DIR=/opt/areba/cache PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/areba
WORKDIR /source
COPY requirements.txt pyproject.toml ./
# Dependencies change less often than the sources: they are a stage of their own.
RUN /opt/areba/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extras = project["optional-dependencies"]; print("\n".join(project["dependencies"] + extras["worker"] + extras["dashboard"] + extras["json"] + extras["registry"]))' > worker.txt \
    && /opt/areba/bin/pip install --quiet --constraint requirements.txt --requirement worker.txt "$(grep '^setuptools==' requirements.txt)"

FROM dependencies AS build
COPY LICENSE README.md ./
COPY schemas schemas
COPY producers producers
COPY stream_app stream_app
RUN /opt/areba/bin/pip install --quiet --no-deps --no-build-isolation . \
    && /opt/areba/bin/areba compile \
    && chmod -R a+rX,go-w /opt/areba/cache

FROM dependencies AS build-torch
ARG TORCH_INDEX_URL=
RUN if [ -n "${TORCH_INDEX_URL}" ]; then \
      /opt/areba/bin/pip install --quiet --index-url "${TORCH_INDEX_URL}" "$(grep '^torch==' requirements.txt)"; fi \
    && /opt/areba/bin/pip install --quiet --constraint requirements.txt "$(grep '^torch==' requirements.txt)"
COPY --from=build /opt/areba /opt/areba

FROM ${PYTHON_IMAGE} AS runtime
ARG CPU_NAME=x86-64-v3
# Compiled code is found by its path and its processor, so these are as they were in the build.
ENV NUMBA_CPU_NAME=${CPU_NAME} NUMBA_CPU_FEATURES= AREBA_CACHE_DIR=/opt/areba/cache \
    PATH=/opt/areba/bin:${PATH} PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    AREBA__WORKER__HTTP_HOST=0.0.0.0 AREBA__WORKER__HTTP_PORT=8080
# Nothing is written to disk: the root file system may be read-only, with a tmpfs on /tmp.
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['AREBA__WORKER__HTTP_PORT']}/alive\", timeout=4)"]
ENTRYPOINT ["areba"]
CMD ["run", "-c", "/etc/areba/areba.yaml"]

FROM runtime AS slim
COPY --from=build /opt/areba /opt/areba

FROM runtime
COPY --from=build-torch /opt/areba /opt/areba
