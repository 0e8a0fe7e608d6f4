#!/bin/sh
# Starts one stage for `dvc repro`, with the Python of the environment that Graft is installed in, also where none is
# activated (.venv/bin/dvc repro) or somebody else's is. The folders above are looked into as well: queued experiments
# run in one below .dvc/tmp that has no environment of its own.
environment=${VIRTUAL_ENV:-none} above=$PWD
until [ -x "$environment/bin/graft" ] || [ -z "$above" ]; do
  environment=$above/.venv above=${above%/*}
done
if [ -x "$environment/bin/graft" ]; then exec "$environment/bin/python" -m flows.stages.run "$@"; fi
exec python3 -m flows.stages.run "$@"
