"""What the tables over several trials hold; and all tables, the one source of schema.json and docs/tables.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tierbench import names
from tierbench.postprocess.schema.columns import Column, Row, columns_of, count, factor_levels, inner, number, text
from tierbench.postprocess.schema.rows import CONFIGURATION, SUMMARISED, Count, OfTrial, trial_column
from tierbench.postprocess.stats import Compared, Interval

OF_SINGLE_TRIALS = "; empty with a single trial of either"
UNBOUNDED = "; empty where the ladder does not bound it"


@dataclass(frozen=True)
class Mean(Interval):
    """A column of trials.csv over several trials."""

    sd: float | None = None


def bounded(
    name: str, unit: str, meaning: str, decimals: int = 3, empty: str = "", ends: str | None = None
) -> Interval:
    """The columns of a value and of its interval's ends, which are called as the value is but for its unit."""
    prefix = f"{name.rpartition('_')[0] or name}_" if ends is None else ends
    columns = [
        Column(name, "number", unit, meaning, decimals, path=("value",)),
        Column(f"{prefix}low", "number", unit, f"95 % interval of {name} begins{empty}", decimals, path=("low",)),
        Column(f"{prefix}high", "number", unit, f"95 % interval of {name} ends", decimals, path=("high",)),
    ]
    return inner(columns, lambda values: Interval(**values))


def means() -> Mapping[str, Mean]:
    """The columns of what is averaged, and the means by the names of what they are of."""
    columns = [
        Column(f"{of.name}{suffix}", "number", of.unit, meaning, of.decimals, path=(of.name, part))
        for of in map(trial_column, SUMMARISED)
        for part, suffix, meaning in (
            ("value", "", f"mean over the trials of {of.name}: {of.meaning}"),
            ("sd", "_sd", f"sample standard deviation over the trials of {of.name}"),
            ("low", "_low", f"95 % interval of the mean of {of.name} begins; empty with a single trial"),
            ("high", "_high", f"95 % interval of the mean of {of.name} ends"),
        )
    ]
    return inner(columns, lambda values: {name: Mean(**values.get(name, {})) for name in SUMMARISED})


@dataclass(frozen=True, kw_only=True)
class SummaryRow(Row):
    """The repetitions of a configuration and batch."""

    file, per = names.SUMMARY_CSV, "configuration and batch size"
    configuration: str = text(CONFIGURATION)
    levels: Mapping[str, Any] = factor_levels()
    trials: Count = count("usable trials, complete and not INVALID; the rest is over those of them that have a value")
    trials_left_out: Count = count("trials that are not usable")
    valid: Count = count("trials with the verdict VALID")
    suspect: Count = count("trials with the verdict SUSPECT")
    invalid: Count = count("trials with the verdict INVALID")
    method: str = text("how the interval of delivered_mbps was made: t; resolution, of equal values")
    means: Mapping[str, Mean] = means()
    by_valid: Interval = bounded(
        "delivered_valid_mbps", "Mb/s", "delivered_mbps over the VALID trials alone; empty where none is SUSPECT"
    )
    gain: Interval = bounded("gain_mbps", "Mb/s", "delivered_mbps less that of the next smaller number of jobs")
    growth: Interval = bounded("growth", "1", "the same as a ratio, the thesis' rate of increase", 4)


@dataclass(frozen=True, kw_only=True)
class RatioRow(Row):
    """Two levels of a factor, all else being equal."""

    file, per = names.RATIOS_CSV, "factor, metric and ordered pair of its levels, all else being equal"
    factor: str = text("what is compared: access, workload, the pair of both, jobs, or an axis")
    levels: Mapping[str, Any] = factor_levels()
    against: str = text("level that this level is compared with")
    metric: str = text("column of trials.csv that is compared")
    ratio: Interval = bounded("ratio", "1", "level over against", 6, OF_SINGLE_TRIALS, ends="")
    more: Interval = bounded(
        "difference", "", "level less against, in the metric's unit", 4, "; empty with a single pair"
    )
    df: float | None = number("1", "degrees of freedom of the ratio's interval")
    pairs: Count = count("repetitions of which both trials are usable and have the metric")
    by_valid: Interval = bounded(
        "valid_ratio", "1", "ratio by VALID trials alone; empty where all are", 6, OF_SINGLE_TRIALS
    )
    valid_df: float | None = number("1", "degrees of freedom of the interval by VALID trials; empty where all are")
    valid_pairs: Count = count("repetitions of which both trials are VALID and have the metric")
    method: str = text("how the interval was made: moderated t; resolution, where trials differ by less than that")

    @property
    def compared(self) -> Compared:
        """The ratio with its degrees of freedom; of a table that is older than their column, those of its pairs."""
        of_pairs = self.pairs - 1.0 if self.pairs and self.pairs > 1 and self.ratio.interval else None
        return Compared(self.ratio, self.df or of_pairs)

    @property
    def compared_by_valid(self) -> Compared:
        """The same by VALID trials alone."""
        of_pairs = max((self.valid_pairs or 0) - 1.0, 0.0)
        return Compared(self.by_valid, of_pairs if self.valid_df is None else self.valid_df)

    @property
    def is_doubted(self) -> bool:
        """Whether some of its trials are SUSPECT; by those alone nothing is clear."""
        return self.valid_df is not None or self.valid_pairs not in (None, self.pairs)


MEASURED, EXTRAPOLATED = "measured", "extrapolated"


@dataclass(frozen=True, kw_only=True)
class ScalingRow(Row):
    """A level of the factor along which the experiment asks how the rate scales."""

    file, per = names.SCALING_CSV, "point along the factor of [scaling], if the experiment has such"
    factor: str = text("along what: jobs, or an axis of numbers")
    levels: Mapping[str, Any] = factor_levels()
    against: str = text("the least level of the factor, all else being equal")
    kind: str = text("measured, or extrapolated: then nothing of this point was measured")
    delivered: Interval = bounded("delivered_mbps", "Mb/s", "delivered throughput")
    scale: Interval = bounded("scale_factor", "1", "rate over that at the least level, over level over least level", 4)
    pairs: Count = count("repetitions behind the scale factor; empty: extrapolated")
    by: str = text("the point whose scale factor was used to extrapolate")
    method: str = text("how the scale factor's interval was made: moderated t")


@dataclass(frozen=True, kw_only=True)
class SaturationRow(Row):
    """A ladder of batches."""

    file, per = names.SATURATION_CSV, "ladder of two batches or more"
    levels: Mapping[str, Any] = factor_levels()
    state: str = text("full: within the ladder; full from the fewest jobs; not full; unknown")
    why: str = text("why it is unknown")
    full_with: Interval = bounded(
        "saturation_jobs", "1", "saturation point: where single clients' rates add up to the plateau", 2, UNBOUNDED
    )
    plateau: Interval = bounded("plateau_mbps", "Mb/s", "rate that more clients approach", empty=UNBOUNDED)
    each: Interval = bounded("each_mbps", "Mb/s", "what each client brings below saturation", empty=UNBOUNDED)
    further: Interval = bounded("further_mbps", "Mb/s", "what one more client brings at the ladder's end")
    predicted_jobs: Count = count("next larger number of jobs, which is predicted")
    predicted: Interval = bounded("predicted_mbps", "Mb/s", "predicted delivered_mbps, mean over as many repetitions")
    batches: Count = count("job counts with usable trials; jobs is the largest")
    repeats: Count = count("repetitions with usable trials")
    method: str = text("how the intervals were made: profile, of the likelihood")


SCHEMA_VERSION = 10  # raised where a number's meaning or a rule changes, too: tables of older versions are made anew
TABLES = [table for table in (*Row.__subclasses__(), *OfTrial.__subclasses__()) if "file" in vars(table)]
FILES = {name: table for name in names.TABLES for table in TABLES if table.file == name}


def schema(axes: Sequence[Column] = (), further: Sequence[Column] = ()) -> dict[str, Any]:
    """What schema.json says of the CSVs beside it; `further` columns stand at the end of samples.csv."""
    more = {names.SAMPLES_CSV: further}
    files = {
        name: {
            "one_row_per": table.per,
            "columns": [
                {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
                for c in (*columns_of(table, axes), *more.get(name, ()))
            ],
        }
        for name, table in FILES.items()
    }
    return {"schema_version": SCHEMA_VERSION, "encoding": "utf-8", "missing": "", "files": files}
