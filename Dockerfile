# tracoco on a CPU. Not built yet: it was written on a machine without a container engine.
#   docker build --tag tracoco .
#   docker run --rm --user "$(id -u)" --volume "$PWD:/data" tracoco demo --out demo
FROM python:3.11-slim
WORKDIR /opt/tracoco
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# Torch's website names an index with CPU builds, which are a tenth of the size of the default ones:
# give it with --build-arg TORCH_INDEX=...
ARG TORCH_INDEX=
RUN pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch \
    && pip install --no-cache-dir --constraint constraints.txt ".[dicom,monai]"
WORKDIR /data
ENV MPLCONFIGDIR=/tmp/matplotlib
ENTRYPOINT ["tracoco"]
CMD ["--help"]
