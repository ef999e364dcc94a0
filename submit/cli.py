"""The command `tierbench`; its sub-commands tell the pipeline's sentence."""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

from tierbench import version
from tierbench.checked_text import shown
from tierbench.errors import TierbenchError, UnmetNeed, exit_status, listen, missing_library
from tierbench.spec import suggestion
from tierbench.submit.console import Quiet, add_command, speak_anywhere, warn

DESCRIPTION = """\
Tierbench turns a question about storage access into HTCondor DAGs, runs them so that the numbers
can be trusted, and hands back tables, plots and a verdict.
"""

# The modules that add commands, and which, in the order of the help.
PARTS = {
    "submit.preview": ("list", "show"),
    "submit.init_site": ("init-site",),
    "submit.doctor": ("doctor",),
    "submit.replication": ("replicas",),
    "submit.commands": ("plan", "write", "run", "submit", "watch", "stop"),
    "submit.try_commands": ("try",),
    "submit.watch": ("status",),
    "submit.results": ("tables", "enough", "report", "compare"),
    "submit.clean": ("clean",),
    "submit.nightly.cli": ("nightly",),
    "submit.history": ("history",),
    "testbed.cli": ("testbed",),
}
SURROGATE = re.compile("[\ud800-\udfff]")  # what Python makes of a byte that is none of a name in UTF-8
RUNS = ("RUN", "A", "B", "FOLDER")  # what arguments are called that are run directories
COMPLETION = """\
  tierbench completion bash > ~/.local/share/bash-completion/completions/tierbench
  tierbench completion zsh > ~/.zsh-completions/_tierbench       a folder of your fpath
"""
# By what an argument is called: what completes it.
COMPLETED = {"experiment": "_tierbench_experiment", "site": "_tierbench_site", **dict.fromkeys(RUNS, "_tierbench_run")}
BASH = """\
_tierbench_experiment() {{ compgen -W "{experiments}" -- "$1"; compgen -f -- "$1"; }}
_tierbench_site() {{ compgen -W "{sites}" -- "$1"; compgen -f -- "$1"; }}
_tierbench_run() {{ compgen -d -- "$1"; compgen -d -- "runs/$1"; }}
"""
ZSH = """\
_tierbench_experiment() {{ _alternative 'experiments:experiment:({experiments})' 'files:file:_files' }}
_tierbench_site() {{ _alternative 'sites:site:({sites})' 'files:file:_files' }}
_tierbench_run() {{ local -a runs; runs=(runs/*(N/)); compadd -a runs; _files -/ }}
"""


def main(arguments: list[str] | None = None) -> int:
    speak_anywhere()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = command_line(arguments[0] if arguments else "")
    for word in filter(SURROGATE.search, arguments):  # neither records nor pages could hold it
        parser.error(f"{shown(word)}: is not UTF-8; rename it (`convmv`)")
    parsed = parser.parse_args(arguments)
    if not parsed.subcommand:
        parser.print_help()
        return 0
    Quiet.on = parsed.quiet
    listen()
    try:
        status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except TierbenchError as error:
        warn(f"tierbench: {error}")
        return error.exit_status
    except KeyboardInterrupt as interrupt:
        print("tierbench: interrupted", file=sys.stderr)
        return exit_status(interrupt)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest as it ends
        return 141
    except ImportError as error:
        warn(f"tierbench: {missing_library(error)}")
        return UnmetNeed.exit_status
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        warn(f"tierbench: {named}{error.strerror or error}")
        return 1


class Parser(argparse.ArgumentParser):
    """Says which of its words a mistaken one was probably meant to be."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"there is no {shown(str(value))}{suggestion(value, action.choices)}")


def command_line(word: str = "") -> argparse.ArgumentParser:
    """The commands; of one that this word begins its module alone, as all of them take half a second to load."""
    parser = Parser(prog="tierbench", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    subcommands = parser.add_subparsers(dest="subcommand", metavar="COMMAND")
    alone = [part for part, words in PARTS.items() if word in words]
    for part in alone or PARTS:
        import_module(f"tierbench.{part}").register(subcommands)
    if not alone:
        parser.add_argument("--version", action="version", version=f"tierbench {version()}")
        text = "Print a script by which a shell completes commands, options, names of experiments, sites and runs"
        completion = add_command(subcommands, "completion", partial(_completion, parser), text, examples=COMPLETION)
        completion.add_argument("shell", choices=("bash", "zsh"))
    for command in leaves(parser):
        command.add_argument("-q", "--quiet", action="store_true", help="tell results and troubles only")
    return parser


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands that do something, not the groups of them."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for command in group.choices.values():
            yield from leaves(command)


def _completion(root: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    import shtab

    from tierbench.dags.experiment import shipped_experiments
    from tierbench.site_configs.site import known_sites

    for command in leaves(root):
        for action in command._actions:
            function = COMPLETED.get(action.dest) or COMPLETED.get(str(action.metavar))
            if action.nargs != 0 and not action.choices:
                action.complete = dict.fromkeys(("bash", "zsh"), function) if function else shtab.FILE  # type: ignore[attr-defined]
    names = {"experiments": " ".join(shipped_experiments()), "sites": " ".join(known_sites())}
    functions = {"bash": BASH, "zsh": ZSH}[arguments.shell].format(**names)
    preamble: Any = {arguments.shell: functions}  # which its types say is a text
    print(shtab.complete(root, arguments.shell, preamble=preamble))
    return 0
