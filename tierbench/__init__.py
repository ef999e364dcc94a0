"""Tierbench turns a question about storage access into HTCondor DAGs, tables and a verdict."""


def version() -> str:
    """As it is installed; a bare source tree, as on the testbed's access point, has none."""
    from importlib import metadata  # which takes longer to load than many a command to run

    try:
        return metadata.version("tierbench")
    except metadata.PackageNotFoundError:
        return "0+source"
