#!/bin/sh
# Starts one stage for `dvc repro` with the project's own Python, also where no environment is activated.
for python in "${VIRTUAL_ENV:-.venv}/bin/python" .venv/bin/python; do
  if [ -x "$python" ]; then exec "$python" -m flows.stage "$@"; fi
done
exec python3 -m flows.stage "$@"
