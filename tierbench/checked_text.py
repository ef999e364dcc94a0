"""The kinds of text in a definition: each refuses what could mean more than itself where it is used.

What a site's or an experiment's file says ends up in DAGs, submit files, command lines, URLs and paths.
A field's kind is its type, so that no text gets there unchecked; `dags/nodes.py` looks once more at the exit.
"""

import json
import re
from typing import Annotated, ClassVar, Self

from tierbench.errors import UnmetNeed

_PATH = r"(/(?!\.\.?(/|$))[A-Za-z0-9._+@=:~%-]+)+"
_HOST = r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*"
MACRO = re.compile(r"\$\$|\$\w*[(\[]")


def shown(value: str) -> str:
    """A text as it can stand in a message: on one line, and without power over a terminal."""
    short = value if len(value) <= 200 else value[:60] + "…"
    return f'"{short}"' if short.isprintable() else json.dumps(short)


def printable(text: str) -> str:
    """A text with what cannot be seen in it spelled out."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


class Kind(str):
    """A text that is of its kind, or an error that says what it must be."""

    __slots__ = ()
    must_be: ClassVar[str]
    pattern: ClassVar[str]
    longest: ClassVar[int] = 1000

    def __new__(cls, value: str) -> Self:
        if len(value) > cls.longest:
            raise ValueError(f"must be {cls.must_be}, of at most {cls.longest} characters, not {len(value)}")
        cls.check(value)
        return super().__new__(cls, value)

    @classmethod
    def fits(cls, value: str) -> bool:
        """Whether a text is of this kind."""
        try:
            cls(value)
        except ValueError:
            return False
        return True

    @classmethod
    def check(cls, value: str) -> None:
        if not re.fullmatch(cls.pattern, value, re.ASCII):
            raise ValueError(f"must be {cls.must_be}, not {shown(value)}")


class Line(Kind):
    """What is only shown to people."""

    must_be = "a text on one line, of characters that can be seen"

    @classmethod
    def check(cls, value: str) -> None:
        if not value.isprintable():
            raise ValueError(f"must be {cls.must_be}, not {shown(value)}")


class Folder(Line):
    """Where HTCondor is to run something: what could be its macro it replaces in a path, too."""

    must_be = "the path of a folder, on one line, without $( and other signs of HTCondor's macros"

    @classmethod
    def check(cls, value: str) -> None:
        super().check(value)
        if MACRO.search(value):
            raise ValueError(f"must be {cls.must_be}, not {shown(value)}")


class SubmitLine(Kind):
    must_be = 'a line of a submit description, like accounting_group = group_cms or +ProjectName = "higgs"'
    pattern = r"\+?[A-Za-z][A-Za-z0-9_.]* *= *[^ ].*"

    @classmethod
    def check(cls, value: str) -> None:
        super().check(value)
        Line.check(value)
        if value.endswith("\\"):
            raise ValueError(f"must be {cls.must_be}, and not go on in the next one, as {shown(value)}")


class Shell(Line):
    """A line of shell: what a user has run on purpose."""

    must_be = "a line of shell"


class Value(Kind):
    """What a program is given as it is, as the value of a variable."""

    must_be = "a text without NUL"
    pattern = r"[^\0]*"
    longest = 100_000


class Name(Kind):
    must_be = "a name of at most 100 letters, digits and . _ - that begins with a letter, a digit or _"
    pattern = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"


class Key(Kind):
    must_be = 'a name of small letters, digits and single hyphens, at most 60, like "lan-xrootd"'
    pattern = r"(?=.{1,60}$)[a-z0-9]+(-[a-z0-9]+)*"


class Setting(Kind):
    must_be = 'a key of this file, like "workloads.root.options.cache_mb"'
    pattern = r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"


class Host(Kind):
    must_be = 'a host name, like "oss.uf.example"'
    pattern = rf"(?=.{{1,253}}$){_HOST}"


class Interface(Kind):
    must_be = 'the name of a network interface, like "eth0", or "eth%" for all that begin so'
    pattern = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}%?"


class Principal(Kind):
    """A Kerberos principal, in which {host} stands for the worker."""

    must_be = 'a Kerberos principal, like "host/{host}@UF.EXAMPLE"'
    pattern = r"[A-Za-z0-9_][A-Za-z0-9._-]*(/([A-Za-z0-9._-]+|\{host\}))*(@[A-Za-z0-9][A-Za-z0-9.-]*)?"


class AbsolutePath(Kind):
    must_be = (
        "an absolute path of letters, digits and . _ + @ = : ~ % -, without . and .. steps or a / at its end"
        ', like "/data/file"'
    )
    pattern = _PATH


class Glob(Kind):
    must_be = "an absolute path on the storage, of letters, digits and . _ + @ = : ~ % -, or a pattern with * ? [ ]"
    pattern = r"(/(?!\.\.?(/|$))[A-Za-z0-9._+@=:~%*?\[\]!-]+)+"


class LocalFile(Line):
    must_be = "the path of a file, on one line"


class Prefix(Kind):
    must_be = (
        '"root://host:1094/" or another "scheme://host:port/", a mount like "/xrootd-fs", "globus://COLLECTION/", or ""'
        ", with no path after the port: the replica's absolute path follows by itself"
    )
    _SERVER = rf"({_HOST}|\[[0-9A-Fa-f:.]+\])"
    pattern = rf"|root://{_SERVER}(:[0-9]{{1,5}})?/|globus://[0-9A-Fa-f-]+/|[a-z][a-z0-9+-]*://{_SERVER}:[0-9]{{1,5}}/|{_PATH}"


class Requirements(Kind):
    """A ClassAd expression, which stays one expression wherever it is put in parentheses."""

    must_be = 'one ClassAd expression on one line, like TierbenchNetwork == "private"'
    # HTCondor has two parsers, which take a backslash for different things, and with it the end of a string.
    AMBIGUOUS = re.compile(r"[\\']")

    @classmethod
    def check(cls, value: str) -> None:
        if not value.isprintable() or not _parses(value):
            raise ValueError(f"must be {cls.must_be}, not {shown(value)}")
        if MACRO.search(value):
            raise ValueError(f"must be {cls.must_be}, without HTCondor's macros, not {shown(value)}")
        if cls.AMBIGUOUS.search(value):
            instead = "without backslashes and ' (in a pattern, [.] says what \\. would)"
            raise ValueError(f"must be {cls.must_be}, {instead}, not {shown(value)}")


def _parses(expression: str) -> bool:
    try:
        import classad2
    except ImportError:
        raise UnmetNeed(
            "ClassAd expressions are checked with the HTCondor Python bindings, which are missing: pip install htcondor"
        ) from None
    try:
        classad2.ExprTree(expression)
        classad2.ExprTree(f"({expression})")
    except classad2.ClassAdException:
        return False
    return True


class Tree(Kind):
    must_be = 'the name of a tree, like "Events", or ""'
    pattern = r"|[A-Za-z0-9_][A-Za-z0-9_./;-]*"


class Release(Kind):
    must_be = 'letters, digits and . _ -, like "CMSSW_10_6_30"'
    pattern = r"|[A-Za-z0-9_][A-Za-z0-9._-]*"


class OptionalPath(Kind):
    must_be = f'{AbsolutePath.must_be}, or ""'
    pattern = rf"|{_PATH}"


class Image(Kind):
    must_be = 'an image, like "/cvmfs/…/cms:rhel8" or "docker://cmssw/el8:x86_64", or ""'
    pattern = rf"|{_PATH}|(docker|oras|library)://[A-Za-z0-9][A-Za-z0-9._/:@-]*"


class Bind(Kind):
    must_be = 'a folder, or a pair like "/data:/data:ro"'
    pattern = r"(/(?!\.\.?([/:]|$))[A-Za-z0-9._+@=~%-]+)+(:(/(?!\.\.?([/:]|$))[A-Za-z0-9._+@=~%-]+)+(:(ro|rw))?)?"


class Proxy(Kind):
    must_be = 'a host and a port, like "squid.site.example:3128", or ""'
    pattern = rf"|{_HOST}:\d{{1,5}}"


class Variable(Kind):
    must_be = 'the name of a variable, like "XRD_STREAMTIMEOUT"'
    pattern = r"[A-Za-z_][A-Za-z0-9_]*"


# The names of a file's own tables, which serve in file names, DAG nodes and CSV columns; and those of variables.
TableName = Annotated[str, Key]
VariableName = Annotated[str, Variable]
