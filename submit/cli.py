"""The command `tierbench`; its sub-commands tell the pipeline's sentence."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from tierbench import interrupts, version
from tierbench.checked_text import shown
from tierbench.errors import TierbenchError, UnmetNeed
from tierbench.spec import suggestion
from tierbench.submit import output
from tierbench.submit.arguments import add_command

DESCRIPTION = """\
Tierbench turns a question about storage access into HTCondor DAGs, runs them so that the numbers
can be trusted, and hands back tables, plots and a verdict.
"""

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
    output.speak_any_encoding()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = command_line(arguments[0] if arguments else "")
    parsed = parser.parse_args(arguments)
    if not parsed.subcommand:
        parser.print_help()
        return 0
    output.Quiet.asked = parsed.quiet
    interrupts.listen()
    try:
        return int(parsed.run(parsed))
    except TierbenchError as error:
        output.warn(f"tierbench: {error}")
        return error.exit_status
    except KeyboardInterrupt as interrupt:
        print("tierbench: interrupted", file=sys.stderr)
        return interrupts.exit_status(interrupt)
    except BrokenPipeError:  # whoever read our output has seen enough
        return 141
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        output.warn(f"tierbench: {named}{error.strerror or error}")
        return 1


class Parser(argparse.ArgumentParser):
    """Says which of its words a mistaken one was probably meant to be."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"there is no {shown(str(value))}{suggestion(value, action.choices)}")


def command_line(word: str = "") -> argparse.ArgumentParser:
    """The commands; the one that this word begins alone, where it can do without loading all others."""
    parser = Parser(prog="tierbench", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    subcommands = parser.add_subparsers(dest="subcommand", metavar="COMMAND")
    if word == "nightly":  # a monitoring system gives its plugins little time
        from tierbench.submit.nightly import cli as nightly

        nightly.register(subcommands)
    else:
        from tierbench.submit import (
            clean,
            commands,
            doctor,
            history,
            init_site,
            listing,
            replication,
            results,
            try_commands,
            watch,
        )
        from tierbench.submit.nightly import cli as nightly
        from tierbench.testbed import cli as testbed

        parser.add_argument("--version", action="version", version=f"tierbench {version()}")
        for part in (
            listing,
            init_site,
            doctor,
            replication,
            commands,
            try_commands,
            watch,
            results,
            clean,
            nightly,
            history,
            testbed,
        ):
            part.register(subcommands)
        _register_completion(subcommands, parser)
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


def _register_completion(subcommands: Any, root: argparse.ArgumentParser) -> None:
    text = "Print a script by which a shell completes commands, options, and the names of experiments, sites and runs"
    parser = add_command(subcommands, "completion", partial(_completion, root), text, examples=COMPLETION)
    parser.add_argument("shell", choices=("bash", "zsh"))


def _completion(root: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise UnmetNeed("completion needs shtab: pip install shtab") from None
    from tierbench.dags.experiment import shipped_experiments
    from tierbench.site_configs.site import known_sites

    for command in leaves(root):
        for action in command._actions:
            function = COMPLETED.get(action.dest) or COMPLETED.get(str(action.metavar))
            if action.nargs != 0 and not action.choices:
                action.complete = dict.fromkeys(("bash", "zsh"), function) if function else shtab.FILE  # type: ignore[attr-defined]
    functions = {"bash": BASH, "zsh": ZSH}[arguments.shell].format(
        experiments=" ".join(shipped_experiments()), sites=" ".join(known_sites())
    )
    preamble: Any = {arguments.shell: functions}  # which its types say is a text
    print(shtab.complete(root, arguments.shell, preamble=preamble))
    return 0
