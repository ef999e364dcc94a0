"""HTML from elements: text is escaped unless it is markup already, so that no name can break a page."""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")  # control, and what turns text about
MANY = 10  # columns: a table of more is printed smaller
VOID = {"meta", "br", "img", "hr", "link", "wbr"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """An element; `class_` stands for the attribute class, None leaves an attribute or a child out."""
    values = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Markup(f"<{tag}{values}>")
    return Markup(f"<{tag}{values}>{joined(children)}</{tag}>")


def svg(*children: Any, width: float, height: float, **attributes: Any) -> Markup:
    """A drawing of this size, which those who cannot see it do without unless it has a label."""
    role = {"role": "img"} if "aria_label" in attributes else {"aria_hidden": "true"}
    return element("svg", *children, viewBox=f"0 0 {width} {height}", **attributes, **role)


@dataclass(frozen=True)
class Frame:
    """The frame of a drawing of its own: its edges there, and the values that lie at them."""

    left: float
    right: float
    top: float
    base: float
    first: float
    last: float
    low: float
    high: float

    def x(self, value: Any) -> Any:
        """Where a value, or an array of them, is along the drawing."""
        return np.round(self.left + (value - self.first) / (self.last - self.first) * (self.right - self.left), 1)

    def y(self, value: Any) -> Any:
        share = (np.clip(value, self.low, self.high) - self.low) / (self.high - self.low)
        return np.round(self.base - share * (self.base - self.top), 1)

    def scale(self, high: str, unit: str, low: str) -> Iterator[Markup]:
        """The lines above and below, and what they stand for."""
        edges = f"M{self.left} {self.top}H{self.right}M{self.left} {self.base}H{self.right}"
        yield element("path", d=edges, class_="frame")
        for word, y in ((high, self.top), (unit, (self.top + self.base) / 2), (low, self.base)):
            yield element("text", word, x=self.left - 6, y=y + 4, text_anchor="end")


def joined(children: Iterable[Any], between: str = "") -> Markup:
    return Markup(between.join(text(child) for child in children if child is not None))


def text(child: Any) -> str:
    if isinstance(child, Markup):
        return child
    return html.escape(UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(child)), quote=False)


def table(heads: Iterable[Any], rows: Iterable[Iterable[Any]], *, words: int = 1, caption: str | None = None) -> Markup:
    """A table in a box that scrolls where it is too wide; its first columns are words, the others numbers."""

    def kind(number: int) -> str | None:
        return "word" if number < words else None

    head = element("tr", *(element("th", cell, scope="col", class_=kind(n)) for n, cell in enumerate(heads)))
    body = [element("tr", *(element("td", cell, class_=kind(n)) for n, cell in enumerate(cells))) for cells in rows]
    many = "many" if len(re.findall("<th", head)) > MANY else None
    inner = element("table", element("thead", head), element("tbody", joined(body, "\n")), class_=many)
    box = element("div", inner, class_="wide", tabindex="0", role="region", aria_label=caption or "table")
    return element("figure", element("figcaption", unbroken(caption)) if caption else None, box, class_="table")


def definitions(facts: Iterable[tuple[Any, Any]]) -> Markup:
    """Names and what stands for each."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in facts))


def details(summary: Any, *content: Any, **attributes: Any) -> Markup:
    return element("details", element("summary", summary), *content, **attributes)


def unbroken(sentence: str) -> Markup:
    """A sentence whose names and numbers with hyphens stay on one line, and whose commands can be copied."""
    parts = enumerate(sentence.split("`"))
    return joined(element("code", part) if number % 2 else _unbroken(part) for number, part in parts)


def _unbroken(sentence: str) -> Markup:
    words = (element("span", word, class_="nb") if set(word) & set("-–…") else word for word in sentence.split(" "))
    return joined(words, " ")
