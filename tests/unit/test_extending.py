"""Each section of docs/extending.md, done as it says: the texts that stand there are put where it says, and work."""

import json
import os
import re
import shutil
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.client_process import as_a_job
from tests.unit.doctored_trial import edit_client
from tests.unit.quick_plan import POOL, written
from tests.unit.shipped import PYTHON
from tests.unit.stand_ins import RootsHelper, script, serving
from tierbench import site_configs
from tierbench.dags.experiment import load_experiment
from tierbench.dags.plan import expand
from tierbench.site_configs.site import find_site, load_site
from tierbench.submit.questions import visits

PROJECT = Path(__file__).parents[2]
SITES = Path(site_configs.__file__).parent
DOCUMENT = (PROJECT / "docs/extending.md").read_text()


def texts(section):
    """The texts of a section's blocks."""
    (body,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", DOCUMENT, re.DOTALL | re.MULTILINE)
    return re.findall(r"^```\w+\n(.*?)^```$", body, re.DOTALL | re.MULTILINE)


def site_with(folder, table):
    """The testbed's site with a table more."""
    path = folder / "testbed.toml"
    path.write_text((SITES / "testbed.toml").read_text() + "\n" + table)
    return load_site(path)


def test_an_experiment_is_a_file(tmp_path):
    path = tmp_path / "my-caches.toml"
    (text,) = texts("An experiment")
    path.write_text(text)
    plan = expand(find_site("testbed"), load_experiment(path), POOL)
    levels = {(trial.levels["access"], trial.levels["cache_mb"]) for trial in plan.trials}
    assert levels == {(access, cache) for access in ("lan-xrootd", "direct") for cache in ("default", 30, "off")}


@pytest.fixture
def web(tmp_path):
    """A server that shows the replicas at the storage's path; its port."""
    folder = tmp_path / "served"
    folder.mkdir()
    with serving(SimpleHTTPRequestHandler, directory=str(folder)) as url:
        yield url.rpartition(":")[2]


def test_a_way_is_a_table_and_its_client_a_file_and_the_doctor_asks_whether_its_server_listens(tmp_path, web):
    """The run's job, as a process that has what HTCondor would transfer and nothing else, reads from the server."""
    access, client, experiment = texts("An access method, with a client for it")
    (tmp_path / "fetch.py").write_text(client)
    (tmp_path / "fetched.toml").write_text(experiment)
    site, fetched = site_with(tmp_path, access.replace("{port}", web)), load_experiment(tmp_path / "fetched.toml")
    written(fetched, tmp_path / "run", POOL, site)
    (trial,) = (tmp_path / "run/trials").iterdir()
    (url,) = (line.partition("\t")[0] for line in (trial / "replicas.txt").read_text().splitlines())
    served = tmp_path / "served" / url.partition("//")[2].partition("/")[2]
    served.parent.mkdir(parents=True)
    served.write_bytes(os.urandom(10**6))
    end = as_a_job(tmp_path / "run", tmp_path / "sandbox", "fetch", url, 10**6)[-1]
    assert (end["event"], end["status"], end["message"]) == ("end", "ok", "")
    assert end["bytes_client"] >= 10**6
    questions = visits(site, fetched, POOL)["wn03.fiu.test"].questions
    about = [question.about for question in questions if question.kind == "server"]
    assert about == [{"url": f"http://127.0.0.1:{web}/"}]


@pytest.mark.skipif(os.geteuid() != 0, reason="the helper is root's")
def test_a_condition_is_a_program_and_a_table(open_folder, tmp_path):
    program, table = texts("A condition")
    condition, host = site_with(tmp_path, table).conditions["receive-buffer"], RootsHelper(open_folder)
    host.value.write_text("4096\t87380\t6291456\n")
    script(host.words / condition.word, program.replace("/proc/sys/net/ipv4/tcp_rmem", str(host.value)))
    held, refused = (host.call("hold", condition.word, value) for value in ("1048576", "1"))
    assert [json.loads(line) for line in held.stdout.splitlines()] == [
        {"word": "tcp-rmem", "asked": "1048576", "before": "6291456", "now": "1048576"},
        {"word": "tcp-rmem", "restored": "6291456", "at_end": "1048576"},
    ]
    assert refused.returncode == 2
    assert host.value.read_text().split() == ["4096", "87380", "6291456"]


class Package:
    """A copy of the package, and which of its files were changed."""

    def __init__(self, folder):
        self.folder = folder
        self.touched = set()
        for name in ("tierbench", "dags", "submit", "wrappers", "monitors", "postprocess", "testbed", "site-configs"):
            shutil.copytree(PROJECT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, name, text):
        self.touched.add(name)
        (self.folder / name).write_text(text)

    def insert(self, name, text, before):
        old = (self.folder / name).read_text()
        assert old.count(before) == 1
        self.write(name, old.replace(before, text + before))

    def append(self, name, text):
        self.write(name, (self.folder / name).read_text() + "\n\n" + text)

    def python(self, program, *arguments):
        """What a program that uses it prints, as JSON."""
        command = [sys.executable, "-c", program, *arguments]
        # Where it runs is where it looks first, before what is installed.
        return json.loads(subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE).stdout)


@pytest.fixture
def package(tmp_path):
    return Package(tmp_path / "copy")


STARTED = """
import json
from pathlib import Path
from tierbench.testbed.host import RunningHost
from tierbench.testbed.rootfs import recipe
from tierbench.testbed.service import Bed, waves
from tierbench.testbed.services import services, topology
from tierbench.testbed.services.kerberos import principals
from tierbench.testbed.settings import Settings
settings = Settings()
plan = topology(settings)
bed = Bed(plan, {host.name: RunningHost(host, Path(host.name)) for host in plan.hosts})
asked = [(question.host.name, question.thing) for service in services(settings) for question in service.questions(bed)]
order = [[service.name for service in wave] for wave in waves(services(settings))]
web = plan.host("web")
about = [web.fqdn, web.address, web.in_pool, principals(web)]
print(json.dumps([recipe(settings).debian_packages, order, asked, about]))
"""


def test_a_service_of_the_testbed_with_its_host_is_a_file(package):
    (service,) = texts("A service of the testbed")
    package.write("testbed/services/web.py", service.replace('packages=("python3",)', 'packages=("lighttpd",)'))
    packages, order, asked, about = package.python(STARTED)
    started = [name for wave in order for name in wave]
    assert "lighttpd" in packages
    assert started.index("web server") > started.index("mounts, by Kerberos ticket")
    assert ["web", "web"] in asked
    assert ["web", "mount"] in asked  # as on any other host that mounts
    assert about == ["web.uf.test", "198.18.1.14", True, ["host/web.uf.test"]]
    assert len(package.touched) == 1


SAMPLED = """
import json, subprocess, sys
from pathlib import Path
from tierbench.single_file_script import single_file
from tierbench.postprocess.records.samples import read_samples
folder = Path(sys.argv[1])
(folder / "sampler.py").write_text(single_file("tierbench.monitors.sampler"))
options = ["--trial", "t", "--role", "worker", "--interface", "lo", "--period", "0.05"]
with subprocess.Popen([sys.argv[2], "-I", folder / "sampler.py", *options], stdout=subprocess.PIPE) as sampler:
    seen = [sampler.stdout.readline() for _ in range(4)]
    sampler.terminate()
    (folder / "lo.samples").write_bytes(b"".join(seen) + sampler.stdout.read())
samples = read_samples(folder / "lo.samples")
print(json.dumps([samples.columns["runnable"].tolist(), samples.damage]))
"""


def test_a_source_is_a_file_and_its_line(package, tmp_path):
    source, listed = texts("A source of the sampler")
    package.write("monitors/sources/load.py", source)
    package.append("monitors/sources/__init__.py", listed)
    runnable, damage = package.python(SAMPLED, str(tmp_path), PYTHON)
    assert (len(runnable) >= 2, min(runnable) >= 1, damage) == (True, True, None)  # at least the sampler itself runs
    assert len(package.touched) == 2


def have_its_first_byte_late(trial):
    """A client that has its first byte 7 s after the go."""
    edit_client(trial, 0, "end", first_byte_wall_ns=synthetic.GO_NS + 7 * 10**9)


DESCRIBED = """
import json, sys
from pathlib import Path
from tierbench.postprocess.plots.gallery import FIGURES
from tierbench.postprocess.schema.columns import columns_of
from tierbench.postprocess.schema.rows import COMPARED, TrialRow, trial_column
from tierbench.postprocess.schema.run_rows import SummaryRow
from tierbench.postprocess.tables.write import trial_tables
name = "slowest_first_byte_s"
row = trial_tables(Path(sys.argv[1]))
labels = [figure.label for figure in FIGURES if figure.column == name]
averaged = [column.name for column in columns_of(SummaryRow) if column.name.startswith(name)]
print(json.dumps([row[name], trial_column(name).better, name in COMPARED, labels, averaged]))
"""


def test_a_column_is_a_field_and_an_expression_and_its_figure_a_row(package, tmp_path):
    field, expression, figure = texts("A column, with its figure")
    package.insert("postprocess/schema/rows.py", field, before="    # what was done\n")
    package.insert("postprocess/tables/metrics.py", expression, before="        bytes_expected=trial.bytes or ")
    package.insert("postprocess/plots/gallery.py", figure, before="    WALL_TIME_FIGURE,\n")
    trial = synthetic.write_trial(tmp_path / "trial")
    have_its_first_byte_late(trial)
    value, better, compared, labels, averaged = package.python(DESCRIBED, str(trial))
    name = "slowest_first_byte_s"
    assert (round(value, 6), better, compared, labels) == (7, "less", True, ["first byte [s]"])
    assert averaged == [name, f"{name}_sd", f"{name}_low", f"{name}_high"]
    assert (trial / "trials.csv").read_text().splitlines()[0].split(",").index(name) > 0
    assert len(package.touched) == 3


JUDGED = """
import json, sys
from pathlib import Path
from tierbench.postprocess.tables.write import trial_tables
row = trial_tables(Path(sys.argv[1]))
print(json.dumps([row["verdict"], row["verdict_reasons"]]))
"""


def test_a_rule_is_a_function(package, tmp_path):
    (rule,) = texts("A rule")
    package.append("postprocess/verdict/client_rules.py", rule)
    trial = synthetic.write_trial(tmp_path / "trial")
    before = package.python(JUDGED, str(trial))
    have_its_first_byte_late(trial)
    verdict, reasons = package.python(JUDGED, str(trial))
    said = "client 0 had its first byte 7.0 s after the go (at most 5 s): opening is slow"
    assert ("opening" in before[1], verdict, said in reasons) == (False, "SUSPECT", True)
    assert len(package.touched) == 1
