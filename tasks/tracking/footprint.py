"""What MLflow leaves in a project's folder, and what it is told by environment variables."""

FILES = "/mlflow.db* /mlruns/ /mlartifacts/"
"""Lines of `.gitignore`, as words."""

NO_TELEMETRY = {"MLFLOW_DISABLE_TELEMETRY": "true"}
