"""The client of CMSSW, with a stand-in for cmsRun and its release."""

import pytest

from tests.unit.client_process import SIZE, URL
from tierbench.wrappers.clients.cmssw import JobReport

JOB_REPORT = """<FrameworkJobReport>
<ReadBranches></ReadBranches>
<InputFile>
<LFN></LFN>
<PFN>root://server:1094//store/replica.root</PFN>
<EventsRead>18192</EventsRead>
<Runs><Run ID="207905"></Run></Runs>
</InputFile>
<PerformanceReport>
 <PerformanceSummary Metric="ApplicationMemory">
  <Metric Name="PeakValueRss" Value="891.617"/>
 </PerformanceSummary>
 <PerformanceSummary Metric="StorageStatistics">
  <Metric Name="Parameter-untracked-bool-enabled" Value="true"/>
  <Metric Name="Timing-root-read-totalMegabytes" Value="12.5"/>
  <Metric Name="Timing-root-readv-totalMegabytes" Value="300"/>
  <Metric Name="Timing-tstoragefile-read-totalMegabytes" Value="12.5"/>
  <Metric Name="Timing-tstoragefile-readActual-numOperations" Value="412"/>
  <Metric Name="Timing-tstoragefile-readActual-totalMegabytes" Value="312.5"/>
 </PerformanceSummary>
 <PerformanceSummary Metric="Timing">
  <Metric Name="EventThroughput" Value="41.2"/>
  <Metric Name="TotalJobCPU" Value="430.1"/>
  <Metric Name="TotalJobTime" Value="455.7"/>
 </PerformanceSummary>
</PerformanceReport>
</FrameworkJobReport>
"""


def job_report(folder, text=JOB_REPORT):
    (folder / "FrameworkJobReport.xml").write_text(text)
    return JobReport(folder / "FrameworkJobReport.xml")


@pytest.mark.parametrize(
    "count", ["<EventsRead/>", "<EventsRead>many</EventsRead>", "<EventsRead>nan</EventsRead>", ""]
)
def test_events_that_the_job_report_leaves_out_are_not_known(tmp_path, count):
    report = job_report(tmp_path, JOB_REPORT.replace("<EventsRead>18192</EventsRead>", count))
    assert report.events is None
    assert report.bytes_read is not None


@pytest.mark.parametrize("actual", ["readActual-totalMegabytes", "seek-totalMegabytes"])
def test_the_job_reports_megabytes_are_mebibytes_of_single_and_vector_reads(tmp_path, actual):
    report = job_report(tmp_path, JOB_REPORT.replace("readActual-totalMegabytes", actual))
    assert (report.bytes_read, report.events, report.detail["total_job_cpu_s"]) == (312.5 * 2**20, 18192, 430.1)


@pytest.mark.parametrize(
    ("code", "status"), [(8020, "open-failed"), (8028, "open-failed"), (8021, "short-read"), (8001, "failed")]
)
def test_cmsruns_exit_codes_become_statuses(tmp_path, code, status):
    error = f'<FrameworkError ExitStatus="{code}" Type="Fatal Exception"><![CDATA[Of\n a sort]]></FrameworkError>'
    report = job_report(tmp_path, f"<FrameworkJobReport>{error}</FrameworkJobReport>")
    assert report.failure("")[0] == status


@pytest.fixture
def cmssw(job):
    """A stand-in for a site with CMSSW: what is set up, and a cmsRun that only leaves a job report."""
    (job.folder / "cvmfs").mkdir()
    job.script("cvmfs/cmsset_default.sh", "export CMSSET=done")
    job.script("bin/scramv1", 'if [ "$1" = project ]; then mkdir -p $3/src; else echo "export SCRAM=$PWD"; fi')
    (job.folder / "job-report.xml").write_text(JOB_REPORT)
    job.script("bin/cmsRun", f'env > {job.folder}/environment; cp "$3" {job.folder}/pset-seen.py',
               f'cp {job.folder}/job-report.xml "$2"')  # fmt: skip
    (job.folder / "higgs_cfg.py").write_text("process = Process()\n")
    job.offer(URL, SIZE)
    return {"cvmfs": str(job.folder / "cvmfs"), "release": "CMSSW_10_6_30", "arch": "slc7", "pset": "higgs_cfg.py"}


def test_cmsrun_runs_in_the_release_that_was_set_up_and_reads_this_jobs_replica_to_the_end(job, cmssw):
    end = job.end("cmssw", options=cmssw)
    assert (end["status"], end["bytes_source"]) == ("ok", "StorageStatistics")
    assert (end["events"], end["bytes_app"]) == (18192, 312.5 * 2**20)
    environment, pset = ((job.folder / name).read_text() for name in ("environment", "pset-seen.py"))
    assert all(words in environment for words in ("CMSSET=done", "SCRAM_ARCH=slc7", "CMSSW_10_6_30/src"))
    assert f"fileNames = cms.untracked.vstring('{URL}')" in pset
    assert all(words in pset for words in ("int32(-1)", "user_pset.py", "numberOfStreams = cms.untracked.uint32(1)"))


def test_each_file_of_a_job_is_what_its_own_cmsrun_reads(job, cmssw):
    """By a mount, where another replica than its own would be read as well, and from memory."""
    files = [job.folder / f"replica-{number}.root" for number in (1, 2)]
    (job.folder / "replicas.txt").write_text("".join(f"{file}\t1\n" for file in files))
    opened = f"sed -n \"s/.*vstring('\\(.*\\)').*/\\1/p\" $3 | tee -a {job.folder}/opened"
    job.script("bin/cmsRun", f'sed "s|root://server.*root|$({opened})|" {job.folder}/job-report.xml > "$2"')
    end = job.end("cmssw", options=cmssw, files_per_job=2)
    assert (end["status"], end["work"]["files"]) == ("ok", 2), end["message"]
    assert (job.folder / "opened").read_text().split() == [f"file:{file}" for file in files]


def test_another_file_than_the_replica_none_no_job_report_and_a_missing_release_are_told(job, cmssw):
    (job.folder / "job-report.xml").write_text(JOB_REPORT.replace("server:1094", "fallback:1094"))
    assert job.end("cmssw", options=cmssw)["status"] == "wrong-protocol"
    before, _, after = JOB_REPORT.partition("<InputFile>")
    (job.folder / "job-report.xml").write_text(before + after.partition("</InputFile>")[2])
    assert job.end("cmssw", options=cmssw)["status"] == "short-read"
    job.script("bin/cmsRun", "true")
    assert job.end("cmssw", options=cmssw)["status"] == "failed"
    job.script("bin/scramv1", "echo no such release >&2; exit 1")
    end = job.end("cmssw", options=cmssw)
    assert (end["status"], "no such release" in end["message"]) == ("failed", True)


def test_an_image_is_entered_before_anything_is_set_up(job, cmssw):
    job.script("bin/apptainer", f'echo "$@" > {job.folder}/apptainer; shift 4; exec "$@"')
    job.environment["X509_USER_PROXY"] = str(job.folder / "secrets/proxy")
    assert job.end("cmssw", options={**cmssw, "image": "/images/el7.sif", "binds": ["/data"]})["status"] == "ok"
    command = (job.folder / "apptainer").read_text()
    assert command.startswith(f"exec --bind {job.folder}/tierbench-")
    assert ",/data" in command
    assert f",{job.folder}/secrets" in command
