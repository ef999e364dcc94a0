"""`testbed run --all-papers`: every experiment of the papers in turn, each on a testbed that suits it, and a page."""

import tempfile
import time
from pathlib import Path

from tierbench import names
from tierbench.dags.experiment import find_experiment, shipped_experiments
from tierbench.dags.plan import expand
from tierbench.dags.trial_settings import least_repeats, most_repeats
from tierbench.errors import BusyError, TierbenchError
from tierbench.site_configs.site import load_site
from tierbench.submit.planning import Planned
from tierbench.submit.preview import MAKE_MBPS
from tierbench.submit.progress import Run, Stage
from tierbench.testbed.rootfs import Say
from tierbench.testbed.run import ASKED_TO_END, HOME, attach, run, waits_for_us
from tierbench.testbed.services import topology
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.settings import Settings, demands, load, with_demands
from tierbench.testbed.testbed import SHIPPED, Testbed, offered

SCALED = "-scaled"
UP_S = 20.0  # of a testbed, before its first job


def experiments() -> list[str]:
    """The papers' experiments in a size for the testbed, in the order in which they are run."""
    return [name for name in shipped_experiments() if name.endswith(SCALED)]


def settings_of(experiment: str) -> Settings:
    """The testbed that an experiment needs."""
    return with_demands(load(SHIPPED, []), demands(experiment), experiment)


def seconds_of(name: str) -> float:
    """How long an experiment takes at the least, with its testbed and its replicas."""
    settings, experiment = settings_of(name), find_experiment(name)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(offered(SHIPPED.read_text(encoding="utf-8"), settings))
        file.flush()
        site = load_site(Path(file.name))
    hosts = topology(settings)
    plan = expand(site, experiment, {name: [host.fqdn for host in hosts.pool(name)] for name in site.pools})
    replicas = sum(own.count * own.nominal_bytes for own in plan.replicas.values() if own.lies_ready)
    repeated = least_repeats(experiment.repeats) / most_repeats(experiment.repeats)
    trials_s = Planned(plan, site, experiment, "").run_s * repeated
    return UP_S + replicas * 8e-6 / min(MAKE_MBPS, settings.rates_mbps.storage) + trials_s


def is_done(home: Path) -> bool:
    """Whether a run came home with all of its trials; it is not if it was stopped."""
    if not (home / names.TRIALS_CSV).exists():
        return False
    return all(trial.stage is Stage.FINISHED for trial in Run(home).trials())


def show_list(into: Path) -> None:
    """Which experiments there are, what of them is done, and the hours of the rest."""
    total = 0.0
    for name in experiments():
        seconds, done = seconds_of(name), is_done(into / name)
        total += 0 if done else seconds
        print(f"{name:36} {'is done' if done else f'{seconds / 60:4.0f} min'}")
    print(f"{'what is not done, at the least':36} {total / 3600:4.1f} h")


def _goes_on(testbed: Testbed, home: Path) -> bool:
    """Whether the testbed has a run that is not home."""
    return testbed.is_up and not (home / names.TRIALS_CSV).exists() and waits_for_us(testbed, home)


def _take_down(testbed: Testbed) -> None:
    """Refused while something goes on in it."""
    if testbed.is_up and (clusters := _in_queue(testbed)):
        attach_it = "`tierbench testbed attach RUN` brings home what goes on there, `testbed down` does without it"
        raise BusyError(f"testbed {testbed.name!r} has DAGs in its queue ({clusters}): {attach_it}; or give --name")
    if testbed.is_up and (others := set(_submitted(testbed)) - set(experiments())):
        them = ", ".join(sorted(others))
        raise BusyError(
            f"testbed {testbed.name!r} has other runs ({them}), which may not have come home:"
            " `tierbench testbed attach RUN` sees to that; take it down then, or give --name"
        )
    testbed.check_stranded()
    testbed.down()


def _submitted(testbed: Testbed) -> list[str]:
    """The runs that were submitted in a testbed."""
    script = f"cd {HOME}/runs 2>/dev/null && ls */{names.SUBMITTED} 2>/dev/null || true"
    listing = testbed.host(ACCESS_POINT).run("sh", "-c", script).stdout
    return [line.partition("/")[0] for line in listing.splitlines()]


def _in_queue(testbed: Testbed) -> str:
    """The clusters of DAGs that a testbed has in its queue."""
    dags = ("-constraint", "JobUniverse == 7", "-af", "ClusterId")
    queue = testbed.host(ACCESS_POINT).run("condor_q", "-allusers", *dags)
    return ", ".join(dict.fromkeys(queue.stdout.split()))


def run_all(testbed: Testbed, into: Path, say: Say, anyway: bool) -> int:
    """Run what is not done; what fails is named at the end, and is tried again when this is called again."""
    from tierbench.postprocess.report.write import write_index

    failed: dict[str, str] = {}
    goes_on = [name for name in experiments() if _goes_on(testbed, into / name)]
    for number, name in enumerate(sorted(experiments(), key=lambda name: name not in goes_on), 1):
        say(f"{number}/{len(experiments())}  {name}")
        home = into / name
        if is_done(home):
            say(f"{home} is done")
            continue
        if (home / names.TRIALS_CSV).exists():
            failed[name] = f"was stopped before its end; once {home} is removed, the same command measures it anew"
            continue
        begin, under_way = time.monotonic(), name in goes_on
        if not under_way:
            _take_down(testbed)
        try:
            status = attach(testbed, home, say) if under_way else run(testbed, name, home, say, anyway)
        except TierbenchError as error:
            failed[name] = str(error)
            say(f"{name}: {error}")
            if _goes_on(testbed, home):  # nothing else has it
                say("the testbed has its run still: once that is mended, the same command brings it home")
                return 1
            continue
        if status in ASKED_TO_END:
            say(f"the same command goes on from {name}")
            return status
        if status:
            failed[name] = f"exit status {status}; see {home}"
        say(f"{name}: {(time.monotonic() - begin) / 60:.0f} min")
        say(f"all that is done: {write_index(into, None, lambda _: None)}")
    _take_down(testbed)
    for name, reason in failed.items():
        say(f"{name}: {reason}")
    return int(bool(failed))
