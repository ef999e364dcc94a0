"""Small runs to report on, and a page as a browser reads it."""

from dataclasses import replace
from html.parser import HTMLParser

from tests.unit.synthetic_report import Shape
from tierbench.postprocess.report.markup import VOID

SMALL = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(4, 8), repeats=3)
BARE = replace(SMALL, samples=False)
ONE_BATCH = replace(BARE, batches=(8,))


def silent(_words):
    pass


class Page(HTMLParser):
    """What a page holds; raises where a tag is closed that was not open."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.loads, self.links, self.ids = [], [], [], [], []
        self.trials = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        self.ids += [told["id"]] if "id" in told else []
        self.loads += [told[name] for name in ("src", "srcset", "data", "poster") if name in told]
        self.loads += [told["href"]] if tag == "link" else []
        self.links += [told["href"]] if tag == "a" else []
        if "trial" in (told.get("class") or "").split():
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
