"""Map the import namespace tierbench.* onto the top-level folders; all else is in pyproject.toml."""

from setuptools import setup

STAGES = {
    "tierbench.site_configs": "site-configs",
    "tierbench.dags": "dags",
    "tierbench.submit": "submit",
    "tierbench.wrappers": "wrappers",
    "tierbench.monitors": "monitors",
    "tierbench.postprocess": "postprocess",
    "tierbench.postprocess.plots": "postprocess/plots",
    "tierbench.postprocess.report": "postprocess/report",
    "tierbench.testbed": "testbed",
}

setup(packages=["tierbench", *STAGES], package_dir=STAGES)
