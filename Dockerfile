# docnmt-serve on CPUs: no root, nothing to write. docs/reference/service.md says how it is used.
# PyTorch keeps its wheels without CUDA in an index of its own: docker build --build-arg TORCH_INDEX=URL makes a small image.
# Pin the base by its digest: --build-arg BASE=python:3.12-slim@sha256:… as `docker buildx imagetools inspect python:3.12-slim` says.
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
ARG TORCH_INDEX
RUN python -m venv /opt/docnmt \
    && /opt/docnmt/bin/pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
# What docnmt needs comes before its source, so that a change of the source installs nothing else again.
COPY pyproject.toml /src/
RUN /opt/docnmt/bin/python -c "import tomllib; project = tomllib.load(open('/src/pyproject.toml', 'rb'))['project']; \
    extras = project['optional-dependencies']; \
    print(*project['dependencies'], *extras['serve'], *extras['documents'], sep='\n')" > /tmp/requirements.txt \
    && /opt/docnmt/bin/pip install --no-cache-dir -r /tmp/requirements.txt
COPY . /src
RUN /opt/docnmt/bin/pip install --no-cache-dir --no-deps /src

FROM ${BASE}
COPY --from=build /opt/docnmt /opt/docnmt
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin docnmt
USER 10001
ENV PATH=/opt/docnmt/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
EXPOSE 8000
HEALTHCHECK --start-period=60s --interval=15s --timeout=5s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
STOPSIGNAL SIGTERM
# Whoever reaches the container could use the service, so it asks for --token-file FILE, or --open where all may.
ENTRYPOINT ["docnmt-serve", "--host", "0.0.0.0"]
CMD ["--path", "/model"]
