# PostgreSQL with Patroni, from PostgreSQL's own packages for Debian, which the image knows.
# To build on one image for good, append its digest: see compose.yaml.
FROM postgres:17
RUN apt-get update \
    && apt-get install --yes --no-install-recommends patroni python3-etcd \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner postgres --group postgres --mode 700 /var/lib/postgresql/data
COPY patroni.yml /patroni.yml
USER postgres
ENTRYPOINT ["patroni", "/patroni.yml"]
