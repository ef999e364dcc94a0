"""Every name on disk: of a run directory's files, and of the replicas on the storage."""

from __future__ import annotations

# The run directory
PLAN = "plan.json"
SITE = "site.json"
EXPERIMENT = "experiment.json"
DAGMAN_CONFIG = "dagman.config"
EXPERIMENT_DAG = "experiment.dag"
SUBMIT = "submit"
SCRIPTS = "scripts"
PROGRAMS = "scripts/programs"
TRIALS = "trials"
TABLES = (SAMPLES_CSV, JOBS_CSV, TRIALS_CSV, SUMMARY_CSV) = ("samples.csv", "jobs.csv", "trials.csv", "summary.csv")
RESOURCES_CSV = "resources.csv"
SCHEMA = "schema.json"
SUBMITTED = "submitted.json"
CEILINGS = "ceilings.json"

# A trial's directory, as it is written
TRIAL_DAG = "trial.dag"
TRIAL = "trial.json"
REPLICAS = "replicas.txt"
CLIENTS = "clients"
SAMPLES = "samples"
FLUSH = "flush"
WRITTEN = (TRIAL_DAG, TRIAL, REPLICAS)
FILLED = (CLIENTS, SAMPLES, FLUSH)  # the folders that the trial's jobs write to

# and what running it adds
CLIENTS_LOG = "clients.log"
GO = "go.json"
STOP = "stop"
OUTCOME = "outcome.json"
TRIES = "tries"  # what an earlier try of the trial has left

# The scripts that DAGs name
FRESH = "fresh.py"
FINISH = "finish.py"

CATALOGUE = "catalogue.json"  # beside the replicas, on the storage


def configuration_dag(configuration_id: str) -> str:
    return f"{configuration_id}.dag"


def trial_directory(trial_id: str) -> str:
    return f"{TRIALS}/{trial_id}"


def client_output(index: int) -> str:
    return f"{CLIENTS}/{index}.jsonl"


def sample_file(host: str) -> str:
    return f"{SAMPLES}/{host}.samples"


def flush_report(host: str) -> str:
    return f"{FLUSH}/{host}.json"


def replica_file(replica_set: str, number: int, suffix: str) -> str:
    """The name of a replica; the first has number 1."""
    return f"{replica_set}-{number:04d}{suffix}"
