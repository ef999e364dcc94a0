"""The HTCondor pool: who gets which job, as whom, and who may speak to it."""

from collections.abc import Callable

import pytest

from tierbench.testbed.topology import USER

Submit = Callable[[str, int], list[str]]


@pytest.fixture
def submit(testbed):
    """Run jobs to their end on the pool; returns what each of them printed."""
    ce = testbed.host("ce")
    directory = ce.run("mktemp", "-d", user=USER).stdout.strip()

    def run(requirements, count):
        lines = [
            "executable = /bin/sh",
            "transfer_executable = false",
            "arguments = \"-c 'hostname --fqdn; id -un'\"",
            f"requirements = {requirements}",
            "output = $(Process).out",
            "log = log",
            "should_transfer_files = yes",
            "request_memory = 16",
            f"queue {count}",
        ]
        ce.put(f"{directory}/job.sub", "\n".join(lines) + "\n", user=USER)
        ce.run("env", "-C", directory, "condor_submit", "job.sub", user=USER)
        ce.run("env", "-C", directory, "condor_wait", "-wait", "600", "log", user=USER, timeout=660)
        return [ce.read(f"{directory}/{n}.out", USER).decode() for n in range(count)]

    yield run
    ce.run("condor_rm", USER, user=USER, check=False)
    ce.run("rm", "-rf", directory)


@pytest.mark.parametrize(("network", "machines"), [("private", {"wn01", "wn02"}), ("public", {"wn03", "wn04"})])
def test_the_network_attribute_pins_jobs_which_run_as_the_ordinary_user(submit, network, machines):
    outputs = [output.splitlines() for output in submit(f'TierbenchNetwork == "{network}"', 6)]
    assert {host.partition(".")[0] for host, _ in outputs} <= machines
    assert {user for _, user in outputs} == {USER}


def test_servers_take_no_other_jobs(submit):
    outputs = submit("true", 20)
    assert {output.split(".")[0] for output in outputs} <= {"wn01", "wn02", "wn03", "wn04"}


def test_workers_have_room_for_the_largest_batch(testbed):
    constraint = 'TierbenchNetwork == "private"'
    answer = testbed.host("ce").run("condor_status", "-constraint", constraint, "-af", "TotalCpus").stdout
    assert sum(map(float, answer.split())) >= 192


def without_token(host, *command):
    hidden = ["env", "_CONDOR_SEC_TOKEN_SYSTEM_DIRECTORY=/nowhere", "_CONDOR_SEC_TOKEN_DIRECTORY=/nowhere"]
    result = host.run(*hidden, *command, check=False)
    assert result.returncode != 0
    return result.stderr + result.stdout


def test_a_host_of_the_pool_is_refused_without_a_token(testbed):
    assert "uthenticat" in without_token(testbed.host("wn03"), "condor_status", "-any")


def test_a_user_may_not_command_the_daemons(testbed):
    refused = testbed.host("ce").run("condor_off", "-daemon", "negotiator", user=USER, check=False)
    assert refused.returncode != 0 or "ERROR" in refused.stderr
