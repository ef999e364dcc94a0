"""The client of fio and iozone, which are scripts here: what it asks them for, and what it makes of what they say."""

import pytest

from tests.unit.dags.test_writes import WRITING
from tierbench.errors import ConfigError
from tierbench.wrappers.clients.fio import Fio, block_of

SIZE = 4_096_000
# Both say what the programs say: fio as fio 3.33 does, iozone as iozone 3.489 does.
FIO = """
for word in "$@"; do
    case $word in
        --output=*) output=${{word#*=}} ;;
        --filename=*) file=${{word#*=}} ;;
        --size=*) size=${{word#*=}} ;;
        --rw=*) way=${{word#*=}} ;;
        --exec_prerun=*) ${{word#*=}} >prerun.txt ;;
    esac
done
echo "$@" >{asked}
[ $way = read ] || head -c $size /dev/urandom >"$file"
moved=$(stat -c %s "$file") || {{ echo "fio: failed opening $file" >&2; exit 1; }}
cat >"$output" <<END
{{"jobs": [{{"error": 0, "$way": {{"io_bytes": $moved, "runtime": 250}}}}]}}
END
"""
IOZONE = """
echo "$@" >{asked}
echo "        Record Size 1000 kB"
echo "              kB  reclen    write  rewrite    read    reread"
echo "            4000    1000    16000        0"
"""


@pytest.fixture
def job(job):
    job.offer(job.folder / "mine", SIZE)
    for name, script in (("bin/fio", FIO), ("bin/iozone", IOZONE)):
        job.script(name, script.format(asked=f"{job.folder}/asked"))
    return job


def arguments(job):
    return (job.folder / "asked").read_text()


def test_what_was_written_is_what_fio_counted_and_its_own_rate_is_told(job):
    end = job.end("fio", options={"write": True})
    assert (end["status"], end["bytes_app"], end["bytes_source"]) == ("ok", SIZE, "fio")
    assert end["detail"]["own_mbps"] == pytest.approx(SIZE * 8e-6 / 0.25, abs=0.001)
    assert "--rw=write" in arguments(job)
    assert "--end_fsync=1" in arguments(job)


def test_a_colon_in_a_path_makes_no_two_files_of_it(job):
    job.offer(job.folder / "a:b", SIZE)
    job.end("fio", options={"write": True})
    assert f"--filename={job.folder}/a\\:b" in arguments(job)


def test_a_file_that_is_not_there_or_too_short_is_told_and_reading_asks_for_no_more_than_that(job):
    end = job.end("fio")
    assert (end["status"], end["message"]) == ("open-failed", f"fio: failed opening {job.folder}/mine")
    (job.folder / "mine").write_bytes(bytes(SIZE // 2))
    assert job.end("fio")["status"] == "short-read"
    (job.folder / "mine").write_bytes(bytes(SIZE))
    assert job.end("fio")["status"] == "ok"
    assert "--readonly" in arguments(job)
    assert "end_fsync" not in arguments(job)


def test_without_the_close_its_time_ends_when_fios_did(job):
    """Which says that it took 250 ms, while all was over at once."""
    run = job.run("fio", options={"write": True, "close": False})
    assert run["end"]["wall_ns"] > run["go"]["wall_ns"] + 250_000_000


def test_each_file_of_a_job_has_blocks_that_fit_it(job):
    files = {job.folder / "one": SIZE, job.folder / "other": 5_000_000}
    (job.folder / "replicas.txt").write_text("".join(f"{file}\t{size}\n" for file, size in files.items()))
    end = job.end("fio", options={"write": True}, files_per_job=2)
    assert (end["status"], end["bytes_app"]) == ("ok", SIZE + 5_000_000)
    assert "--bs=1000000 " in arguments(job)


def test_past_the_page_cache_go_whole_pages(job):
    job.offer(job.folder / "mine", 8_000_000)
    end = job.end("fio", options={"direct": True})
    assert (end["status"], "blocks of 1000000 bytes: past the page cache" in end["message"]) == ("failed", True)


@pytest.mark.parametrize(
    ("options", "flags"), [({}, "-e -c"), ({"fsync": False, "close": False, "direct": True}, "-I")]
)
def test_iozone_does_it_where_a_site_has_it(job, options, flags):
    end = job.end("fio", options={"write": True, "program": "iozone", **options})
    assert (end["status"], end["bytes_app"], end["detail"]["own_mbps"]) == ("ok", SIZE, 131.072)
    assert arguments(job).split() == f"-i 0 -+n -w -s 4000k -r 1000k -f {job.folder}/mine {flags}".split()


def test_iozone_reads_files_that_it_has_not_made(job):
    """Without its -+E it ends at the first block, in which it looks for a pattern of its own."""
    end = job.end("fio", options={"program": "iozone"})
    assert (end["status"], end["bytes_app"]) == ("ok", SIZE)
    assert arguments(job).split() == f"-i 1 -+E -+n -w -s 4000k -r 1000k -f {job.folder}/mine -e -c".split()


@pytest.mark.parametrize(("size", "block"), [(512_000_000, 1_024_000), (100_000_000, 1_000_000), (3_000_001, 0)])
def test_blocks_are_such_that_the_file_is_a_whole_number_of_them(size, block):
    assert block_of(size, 1 << 20) == block


def test_what_it_does_and_needs_goes_by_its_options(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert Fio.traits({"write": True})["does"] == "writes"
    assert Fio.traits({})["does"] == "reads"
    assert (Fio.missing({}), Fio.missing({"program": "iozone"})) == ("there is no fio", "there is no iozone")
    assert not Fio.settles({"write": True, "fsync": False})


def test_who_is_told_to_write_has_a_set_that_is_written(load):
    mounted = (', "lan-xrootd"', "")
    assert load(WRITING, ('"writer"', '"fio"\noptions = { write = true }'), mounted).workloads
    with pytest.raises(ConfigError, match='client "fio" reads, and "written" is what trials write'):
        load(WRITING, ('"writer"', '"fio"'), mounted)
