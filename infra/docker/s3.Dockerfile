# An S3 server for the compose file: buckets in memory, for tests of what will keep segments there. Not for data.
FROM python:3.11-slim-bookworm
COPY requirements/s3.txt /requirements.txt
RUN pip install --no-cache-dir --require-hashes -r /requirements.txt && useradd --uid 10001 isthmus
USER 10001:10001
ENTRYPOINT ["moto_server", "-H", "0.0.0.0", "-p", "9000"]
