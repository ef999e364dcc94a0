"""Every name on disk: of a run directory's files, and of the replicas on the storage.

Stdlib only, Python 3.6 or newer: it is shipped with what a trial's DAG runs.
"""

from pathlib import PurePath

# The run directory
PLAN = "plan.json"
SITE = "site.json"
EXPERIMENT = "experiment.json"
DAGMAN_CONFIG = "dagman.config"
TRIAL_CONFIG = "trial.config"
EXPERIMENT_DAG = "experiment.dag"
SUBMIT = "submit"
SCRIPTS = "scripts"
PROGRAMS = "scripts/programs"
LISTS = "lists"  # of the hosts that a configuration's trials flush and sample, and of their clients' places
TRIALS = "trials"
TABLES = (
    TRIALS_CSV, SLICES_CSV, SAMPLING_CSV, WORK_CSV,
    SUMMARY_CSV, RATIOS_CSV, SCALING_CSV, SATURATION_CSV, RESOURCES_CSV, JOBS_CSV, SAMPLES_CSV,
) = (
    "trials.csv", "slices.csv", "sampling.csv", "work.csv",
    "summary.csv", "ratios.csv", "scaling.csv", "saturation.csv", "resources.csv", "jobs.csv", "samples.csv",
)  # fmt: skip
SCHEMA = "schema.json"
CONDITIONS = "conditions.json"
SUBMITTED = "submitted.json"
TESTBED = "testbed.json"  # the settings of the testbed on which it was measured, left when it comes home from there
ASKED = "asked.json"  # which definitions it was made of, from which it can be given more repetitions
CLAIMS_LOCK = "claims.lock"  # who looks at whose a trial is
SUBMIT_LOCK = "submit.lock"  # who submits the run
ENOUGH_LOCK = "enough.lock"  # who looks at which repetitions are needed
LOCK_HOLDER = "lock-holder"  # names the trial that has the measurement lock
LOCK_LOOK = "lock-holder.lock"  # who looks at that and changes it
ANSWERED = "answered.json"  # how far the run's question is answered, and which trials it takes no more
CEILINGS = "ceilings.json"
NO_TABLES = "no-tables.txt"  # why the run's own DAGs have made none, and how they are made
NO_SAMPLES = "samples-removed"  # they were, to save room: its tables cannot be made again
NIGHT = "night.json"  # which night of which nightly the run is

# A trial's directory, as it is written
TRIAL_DAG = "trial.dag"
NODES_LOG = TRIAL_DAG + ".nodes.log"  # HTCondor's events, which DAGMan reads
TRIAL = "trial.json"
REPLICAS = "replicas.txt"
CLIENTS = "clients"
SAMPLES = "samples"
FLUSH = "flush"
ARRANGED = "arranged"  # what each host that changes something for the trial says of it
WRITE_AREA = "outbox"  # what is said of the folder on the storage where the trial writes
MADE, CLEARED = "outbox/make.json", "outbox/clear.json"
WRITTEN = (TRIAL_DAG, TRIAL, REPLICAS)
FILLED = (CLIENTS, SAMPLES, FLUSH, ARRANGED, WRITE_AREA)  # the folders that the trial's jobs write to

# and what running it adds
DAGMAN_LOCK = "trial.dag.lock"  # DAGMan's, while it is at work
DAGMAN_LOG = TRIAL_DAG + ".dagman.out"
CLIENTS_LOG, FLUSH_LOG, WRITE_AREA_LOG = "clients.log", "flush.log", "outbox.log"  # HTCondor's events of those jobs
SAMPLERS_LOG, SAMPLERS_SSH_LOG, ARRANGE_LOG = "samplers.log", "samplers-ssh.log", "arrange.log"
GO = "go.json"
STOP = "stop"
OUTCOME = "outcome.json"
RESERVE = "reserve"  # room on the disk in which the trial's books are closed when there is no other
CALLED_OFF = "called-off.json"  # why the gate has ended the trial
WAITING_FOR = "waiting-for.json"  # what the gate waits for, if it does for long
CLAIM = "claim"  # which DAGMan of the run the trial belongs to
ATTEMPT = "attempt.json"  # which try of how many this is
CLOCK_AFTER = "clock_after"  # what a client records after its end, for which nobody is to wait
AFTER = "after"  # names the trial that comes before this one
BEGUN = "begun"  # it has the measurement lock
RELEASED = "released"  # its jobs, which were submitted on hold, are or were about to be
SERVED = "served"  # it has had the lock
NOT_NEEDED = "not-needed"  # enough trials like it have been measured, as long as none at work shows otherwise
COUNTED = "counted"  # it has been looked at what is known with this trial
CLOCK = "clock.json"  # how the access point's wall clock stood to its uptime, at the trial's end
TRIES = "tries"  # what an earlier try of the trial has left

OVER_TIME = "over-time.json"  # what its hosts and jobs moved, in as many steps as are drawn
MADE_OF = "made-of.json"  # what its tables were made of, so that they need not be made again

# The scripts that DAGs name
RESET_TRIAL = "reset_trial.py"
LOCK_SCRIPT = "lock.py"
FINISH = "finish.py"

CATALOGUE = "catalogue.jsonl"  # beside the replicas, on the storage

# A nightly's directory
NIGHTLY = "nightly.json"  # what is measured when, and who gets messages
NIGHTLY_EXPERIMENT = "experiment.toml"
NIGHTLY_STARTER = "nightly.sh"  # what the schedule and the nights' DAGs start
NIGHTLY_LOCK = "lock"
WEBHOOK = "webhook.url"  # for its owner alone
NIGHTLY_JOURNAL = "journal.txt"  # what its steps said
SCHEDULE = "schedule"  # HTCondor's files of the crontab job
NIGHTS = "nights"

# A night's directory, in which lie the runs that it made
NIGHT_RECORD = "record.json"  # what became of it
NIGHT_DAG = "night.dag"
NIGHT_RUN = "run"
NIGHT_AGAIN = "again"  # what confirms, or does not, that something has changed


# Names with something in them: an id, a number, a host
configuration_dag = "{}.dag".format
repetition_dag = "repetition-{}.dag".format
flush_list = (LISTS + "/{}.flush").format  # of a configuration's id
arranged_list = (LISTS + "/{}.arrange").format
sampler_list = (LISTS + "/{}.samplers-{}").format  # and how its hosts are reached
place_list = (LISTS + "/{}.x{:03d}.places").format  # and so many jobs
trial_directory = (TRIALS + "/{}").format
client_output = (CLIENTS + "/{}.jsonl").format  # of a client's number
sample_file = (SAMPLES + "/{}.samples").format  # of a host
flush_report = (FLUSH + "/{}.json").format


def option_file(workload: str, path: str) -> str:
    """A file that a workload's options name, among the programs; several workloads may have files of one name."""
    return f"{workload}.{PurePath(path).name}"


def write_area(writes: str, run: str, trial_id: str) -> str:
    """Where a trial writes: in a folder of its run, below where its access lets trials write."""
    return f"{writes}/{run}/{trial_id}"


def replica_files(replica_set: str, count: int, suffix: str) -> "list[str]":
    return [f"{replica_set}-{number:04d}{suffix}" for number in range(1, count + 1)]
