"""The pages of docs/: what the code declares is as it declares it, and links lead somewhere."""

import dataclasses
import re
import runpy
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from tierbench.dags.clients import Workload, shipped_clients
from tierbench.dags.experiment import Experiment, load_experiment
from tierbench.dags.replicas import KINDS
from tierbench.postprocess.schema.run_rows import FILES
from tierbench.site_configs import site
from tierbench.site_configs.site import load_site
from tierbench.testbed.settings import Rates, Settings
from tierbench.trials import Limits

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MEASURED = tomllib.loads((ROOT / "docs/papers-measured.toml").read_text(encoding="utf-8"))
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
EXAMPLE = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```|^ {4}.*?$", re.DOTALL | re.MULTILINE)


def anchors(page):
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_what_is_generated_is_what_the_code_declares():
    stale = runpy.run_path(str(ROOT / "docs/generate.py"))["stale"]()
    assert [page.name for page in stale] == [], "run `make docs`"


@pytest.mark.parametrize(
    ("page", "parts"),
    [
        *((page.name, ["contents"]) for page in PAGES if page.name != "README.md"),
        ("tables.md", [f"columns {file}" for file in FILES]),
        ("samples.md", ["samples"]),
        ("verdicts.md", ["rules"]),
        ("papers.md", [f"findings {name}" for name in MEASURED]),
        ("clients.md", ["clients", *(f"options {client}" for client in shipped_clients())]),
    ],
)
def test_whatever_is_declared_is_on_a_page(page, parts):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [part for part in parts if f"<!-- generated: {part} -->" not in text] == []


def test_each_file_of_the_map_is_where_it_says():
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+/[\w/*]+\.py)`", page.partition("## Where things are")[2].partition("\n## ")[0])
    assert len(named) >= 12
    assert [path for path in named if not any(ROOT.glob(path))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page):
    broken = []
    for file, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{file}#{anchor}")
    assert broken == []


@pytest.mark.parametrize(("page", "name"), [("sites", "my-site"), ("experiments", "two-doors"), ("faq", "no-root")])
def test_whole_files_that_it_shows_can_be_used(page, name, tmp_path):
    blocks = EXAMPLE.findall((ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
    (text,) = (dedent(block) for block in blocks if re.search(rf'^ {{4}}name +?= "{name}"', block, re.MULTILINE))
    path = tmp_path / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    assert (load_site if page == "sites" else load_experiment)(path).name == name


def keys(*tables):
    """The keys of TOML tables, without what follows from others."""
    fields = (field for table in tables for field in dataclasses.fields(table))
    return sorted({field.name for field in fields if not field.metadata.get("derived")})


@pytest.mark.parametrize(
    ("page", "documented"),
    [
        ("experiments.md", keys(Experiment, Workload, *KINDS.values())),
        ("sites.md", keys(*filter(dataclasses.is_dataclass, vars(site).values()))),
        ("testbed.md", keys(Settings, Rates)),
        ("operations.md", Limits._fields),
    ],
)
def test_each_key_and_limit_is_on_its_page(page, documented):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [key for key in documented if not re.search(rf"[`.\[]{key}\b|\b{key} +=", text)] == []
