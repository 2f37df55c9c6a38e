#!/bin/sh
# A pipeline on YARN: yarn-pipeline.sh FILE.toml [OPTIONS]. Follows Spark's documentation, not run.
# The environment is packed once and unpacked by YARN on each worker; it needs Java 17 there.
set -eu
test -e env.tar.gz || {
  python3 -m venv env
  env/bin/pip install --find-links dist 'headrace[spark]' venv-pack
  env/bin/venv-pack -p env -o env.tar.gz
}
exec env/bin/headrace pipeline run "$@" --master yarn \
  --conf spark.archives=env.tar.gz#env \
  --conf spark.pyspark.python=./env/bin/python \
  --conf spark.executor.instances="${EXECUTORS:-4}" \
  --conf spark.executor.memory="${MEMORY:-2g}"
