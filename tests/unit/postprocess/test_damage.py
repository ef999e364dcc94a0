"""A real trial: its tables stay as they were, and damaged files cost it its verdict at most, never the run's tables."""

import os
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.synthetic_run import rows
from tierbench import names
from tierbench.errors import TierbenchError
from tierbench.postprocess.report.page_tables import link_table
from tierbench.postprocess.schema.rows import TRIAL_FILES
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.write import tables, trial_tables
from tierbench.submit.cli import main

TABLES = Path(__file__).parents[1] / "fixtures/direct-trial"  # as they were before hosts had several interfaces
DAMAGES = int(os.environ.get("TIERBENCH_DAMAGES", "100"))
PARTS = 6  # which may run side by side
MOST_OFF = 0.03
ODD = (
    b"NaN", b"-Infinity", b"1e999", b"null", b"true", b'"text"', b"[]", b"{}", b"-1", b"0", b"0.5",
    b"123456789012345678901234567890", b'"\\ud800"', b'"\\u0000"',
)  # fmt: skip
VALUE = re.compile(rb'(?<=: )("[^"]*"|[-\d.]+|\[\]|null)')
RATES = ("mean_mbps", "delivered_mbps")


def span(content, chance, most=64):
    """What is before a piece of a file, the piece, and what is behind it."""
    begin = chance.randrange(len(content))
    end = min(len(content), begin + chance.randint(1, most))
    return content[:begin], content[begin:end], content[end:]


def other_digit(content, chance):
    at = chance.choice([match.start() for match in re.finditer(rb"\d", content)] or [0])
    return content[:at] + chance.choice(b"0123456789").to_bytes(1, "big") + content[at + 1 :]


def odd_value(content, chance):
    value = chance.choice([*VALUE.finditer(content)] or [None])
    return content[: value.start()] + chance.choice(ODD) + content[value.end() :] if value else b""


def of_pieces(change, most=64):
    return lambda content, chance: change(*span(content, chance, most), chance)


def of_lines(change):
    def damage(content, chance):
        lines = content.splitlines(keepends=True)
        change(lines, chance.randrange(len(lines)), chance)
        return b"".join(lines)

    return damage


KINDS = {
    "another byte": of_pieces(lambda before, piece, behind, chance: before + chance.randbytes(1) + piece[1:] + behind),
    "lost": of_pieces(lambda before, _, behind, __: before + behind),
    "doubled": of_pieces(lambda before, piece, behind, _: before + piece + piece + behind),
    "inserted": of_pieces(lambda before, piece, behind, chance: before + chance.randbytes(9) + piece + behind),
    "zeroed": of_pieces(lambda before, piece, behind, _: before + bytes(len(piece)) + behind, 4096),
    "cut off": of_pieces(lambda before, *_: before),
    "emptied": lambda *_: b"",
    "a lost line": of_lines(lambda lines, at, _: lines.pop(at)),
    "a doubled line": of_lines(lambda lines, at, chance: lines.insert(at, chance.choice(lines))),
    "a moved line": of_lines(lambda lines, at, chance: lines.insert(chance.randrange(len(lines)), lines.pop(at))),
    **{f"another digit {number}": other_digit for number in range(3)},
    **{f"an odd value {number}": odd_value for number in range(3)},
}


@dataclass(frozen=True)
class Run:
    """The real trial's run directory."""

    directory: Path

    @property
    def trial(self):
        (folder,) = (self.directory / names.TRIALS).iterdir()
        return folder

    @property
    def files(self):
        """What the run's and the trial's programs have written."""
        kinds = {".json", ".jsonl", ".samples", ".log"}
        return sorted(path for path in self.directory.rglob("*") if path.suffix in kinds)


@pytest.fixture
def run(real_run):
    return Run(real_run)


def damages(files, part):
    """Each file in turn, however large, damaged by chance, but always in the same ways."""
    for seed in range(part, DAMAGES, PARTS):
        chance = random.Random(seed)  # noqa: S311
        yield seed, files[seed % len(files)], chance.choice(list(KINDS)), chance


def test_the_real_trial_is_valid(run):
    tables(run.directory, pytest.fail)
    (row,) = rows(run.directory / names.TRIALS_CSV)
    assert (row["verdict"], row["verdict_reasons"]) == ("VALID", "")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_damage_ends_the_tables_or_goes_into_a_valid_trials_rate(run, part):
    files = run.files
    sound = trial_tables(run.trial)
    verdicts = Counter()
    for seed, path, kind, chance in damages(files, part):
        before = path.read_bytes()
        path.write_bytes(KINDS[kind](before, chance))
        what = f"damage {seed}: {kind} of {path.relative_to(run.directory)}"
        try:
            row = trial_tables(run.trial)
        except TierbenchError as error:
            assert path.name == names.TRIAL, f"{what}: {error}"
            verdicts["UNREADABLE"] += 1
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
        else:
            verdicts[row["verdict"]] += 1
            for rate in RATES if row["verdict"] == "VALID" else ():
                assert row[rate] == pytest.approx(sound[rate], rel=MOST_OFF), what
        path.write_bytes(before)
    print(dict(verdicts))
    assert sum(verdicts.values()) == len(range(part, DAMAGES, PARTS))


def replaced(pattern, new):
    """A file with something else in place of this."""

    def damage(path):
        text, count = re.subn(pattern, new, path.read_text(encoding="utf-8"))
        assert count
        path.write_text(text, encoding="utf-8")

    return damage


def put_folder(path):
    path.unlink()
    path.mkdir()


CLIENT, SAMPLES = names.client_output(1), names.sample_file("oss.uf.test")
REASONS = {
    "a number that is none": (CLIENT, replaced(r'"cpu_user_s": [\d.]+', '"cpu_user_s": NaN'),
        "client 1: a record is damaged: NaN is no finite number"),
    "a record without its monotonic time": (CLIENT, replaced(r'("end", "wall_ns": \d+), "mono_ns": \d+', r"\1"),
        'client 1: its record "end" is damaged: mono_ns: missing'),
    "doubled digits of a time": (CLIENT, replaced(r'("end", "wall_ns": )(\d{6})', r"\1\2\2"),
        "client 1: a record is damaged: 179528179528"),
    "an end of another attempt": (CLIENT, replaced(r'({"event": "end", .*)', r"\1\n\1"),
        'client 1: its record "end" is damaged: stands there twice'),
    "records of another trial": (CLIENT, replaced('"trial": "', '"trial": "other.'),
        'client 1: its record "start" is of the trial other.direct'),
    "samples of another trial": (SAMPLES, replaced('"trial": "', '"trial": "other.'),
        "samples of oss.uf.test: are of the trial other.direct"),
    "a period of nothing": (SAMPLES, replaced('"period_s": 0.2', '"period_s": 0'), "a period of 0 s"),
    "a definition that is damaged": (names.TRIAL, replaced('"jobs": 4', '"jobs": "four"'),
        'jobs: must be a whole number, not "four"'),
    "a definition that is gone": (names.TRIAL, Path.unlink, "trial.json is not there"),
    "an outcome that is none": (names.OUTCOME, replaced("(?s).+", "null"), "outcome.json is damaged"),
    "a folder in a file's place": (names.GO, put_folder, "go.json cannot be read: Is a directory"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "damage", "reason"), REASONS.values(), ids=REASONS)
def test_a_damaged_file_is_a_reason_on_its_trial(run, file, damage, reason):
    damage(run.trial / file)
    tables(run.directory, pytest.fail)
    (row,) = rows(run.directory / names.TRIALS_CSV)
    assert (row["trial"], row["verdict"], row["jobs"]) == ("direct/root ×4 #1", "INVALID", "4")  # noqa: RUF001
    assert reason in row["verdict_reasons"]


@pytest.mark.parametrize("factor", [0, 0.1, 0.6, 0.85, 1.15, 2])
def test_a_count_that_is_wrong_is_in_no_valid_trials_rate(run, factor):
    replaced(r'(?<="bytes_app": )\d+', lambda match: str(int(int(match[0]) * factor)))(run.trial / CLIENT)
    row = trial_tables(run.trial)
    assert row["verdict"] == "SUSPECT"
    assert "client 1 read" in row["verdict_reasons"]


def test_a_card_that_is_damaged_leaves_the_rate_but_not_the_evidence(run):
    replaced(r'"measured": \[', '"measured": 3, "was": [')(run.directory / names.CEILINGS)
    row = trial_tables(run.trial)
    assert row["verdict"] == "SUSPECT"
    assert "ceilings.json is damaged: measured: must be a list, not 3" in row["verdict_reasons"]
    assert "iperf3" not in str(link_table(read_results(run.directory, str)))


def test_a_damaged_plan_costs_no_tables(run):
    (run.directory / names.PLAN).write_text("{")
    assert main(["tables", str(run.directory)]) == 0


def test_a_directory_that_cannot_be_written_is_told(run, capsys):
    (run.directory / names.SUMMARY_CSV).mkdir()  # which root cannot write either
    assert main(["tables", str(run.directory)]) == 1
    assert "summary.csv was not written; tables can be made of a copy" in capsys.readouterr().err


@pytest.mark.parametrize("table", [names.TRIALS_CSV, names.JOBS_CSV, names.RESOURCES_CSV, names.SAMPLES_CSV])
def test_columns_may_come_and_none_changes(run, table):
    trial_tables(run.trial)
    before, now = rows(TABLES / table), rows(run.trial / table)
    if table == names.TRIALS_CSV:
        now = [{name: value for part in TRIAL_FILES for name, value in rows(run.trial / part)[0].items()}]
    assert [{name: row.get(name) for name in before[0]} for row in now] == before
