"""Small runs to report on, and a page as a browser reads it."""

from dataclasses import replace
from html.parser import HTMLParser

from tests.unit.synthetic_report import Shape, edit_csv, write_run
from tierbench.postprocess.report.markup import VOID
from tierbench.postprocess.tables.load_run import read_results

SMALL = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(4, 8), repeats=3)
BARE = replace(SMALL, samples=False)
ONE_BATCH = replace(BARE, batches=(8,))


def silent(_words):
    pass


def results_of(run, shape, change=lambda _: {}, **changes):
    """What is read of a run of this shape, which is written there, with other values of its trials (`edit_csv`)."""
    edit_csv(write_run(run, shape) / "trials.csv", change, **changes)
    return read_results(run, silent)


class Page(HTMLParser):
    """What a page holds; raises where a tag is closed that was not open, or is left open."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.loads, self.links, self.ids = [], [], [], [], []
        self.trials = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.loads += [values[name] for name in ("src", "srcset", "data", "poster") if name in values]
        self.loads += [values["href"]] if tag == "link" else []
        self.links += [values["href"]] if tag == "a" else []
        if "trial" in (values.get("class") or "").split():
            self.trials.append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.trials and "details" in self.open:
            self.trials[-1].append(data)

    @property
    def text(self):
        return " ".join(self.words)
