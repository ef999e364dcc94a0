"""The wheel's packages, found in tierbench/, where each stage of the work is a link to its folder at the top level."""

from setuptools import find_packages, setup

setup(packages=find_packages(include=["tierbench", "tierbench.*"]))
