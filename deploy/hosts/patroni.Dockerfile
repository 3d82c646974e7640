# PostgreSQL with Patroni, from PostgreSQL's own packages for Debian, which the image knows.
# The digest is renewed as compose.yaml says.
FROM postgres:17@sha256:d74eeac9a635390a49bc21bd49fccd973de707e2a53a76ac49b552b8712ec46f
RUN apt-get update \
    && apt-get install --yes --no-install-recommends patroni python3-etcd \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner postgres --group postgres --mode 700 /var/lib/postgresql/data
COPY --chmod=644 patroni.yml /patroni.yml
USER postgres
ENTRYPOINT ["patroni", "/patroni.yml"]
