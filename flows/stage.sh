#!/bin/sh
# Starts one stage for `dvc repro`, with the Python of the environment that Graft is installed in, also where none is
# activated (.venv/bin/dvc repro) or somebody else's is.
for environment in "${VIRTUAL_ENV:-none}" .venv; do
  if [ -x "$environment/bin/graft" ]; then exec "$environment/bin/python" -m flows.stage "$@"; fi
done
exec python3 -m flows.stage "$@"
