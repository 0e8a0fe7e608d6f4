"""The files of MLflow in a project's folder, and the environment variables that it reads."""

FILES = "/mlflow.db* /mlruns/ /mlartifacts/"
"""Lines of `.gitignore`, as words."""

NO_TELEMETRY = {"MLFLOW_DISABLE_TELEMETRY": "true"}
