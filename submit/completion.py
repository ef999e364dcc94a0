"""`tierbench completion`: a script for the shell, by which it completes commands, options and names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from tierbench.dags.experiment import shipped_experiments
from tierbench.site_configs.site import known_sites

DESCRIPTION = """\
Print a script for bash or zsh, by which it completes commands, options, and the names of experiments, sites and runs.
"""
EXAMPLES = """\
examples:
  tierbench completion bash > ~/.local/share/bash-completion/completions/tierbench
  tierbench completion zsh > ~/.tierbench-completion; echo 'source ~/.tierbench-completion' >> ~/.zshrc
"""
FILES, RUNS = "files", "runs"
SCRIPT = """\
# Completes tierbench; made by `tierbench completion`, to be made again when tierbench is.
{zsh}_tierbench() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="tierbench" given i
    for ((i = 1; i < COMP_CWORD; i++)); do
        given="${{COMP_WORDS[i]}}"
        case "$command $given" in
{groups}        esac
    done
    local words="" files=""
    case "$command" in
{commands}    esac
    case "$command $before" in
{values}    esac
    case "$word" in -*) files="" ;; esac
    COMPREPLY=()
    for given in $words; do
        case "$given" in "$word"*) COMPREPLY+=("$given") ;; esac
    done
    case "$files" in
        runs) for given in "$word"*/ "runs/$word"*/; do [ -d "$given" ] && COMPREPLY+=("${{given%/}}"); done ;;
        files) for given in "$word"*; do [ -e "$given" ] && COMPREPLY+=("$given"); done ;;
    esac
}}
complete -o filenames -F _tierbench tierbench
"""
ZSH = "autoload -U +X compinit bashcompinit && compinit -u && bashcompinit\n"


def register(subcommands: Any) -> None:
    """Add `completion` to the command line."""
    parser = subcommands.add_parser(
        "completion",
        help="Print a script by which bash or zsh completes commands, options and names",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_completion, subcommands=subcommands)
    parser.add_argument("shell", choices=("bash", "zsh"))


def _completion(arguments: argparse.Namespace) -> int:
    print(script(arguments.subcommands.choices, arguments.shell), end="")
    return 0


def script(commands: dict[str, argparse.ArgumentParser], shell: str) -> str:
    """For this shell, of these commands."""
    parsers = dict(_below("tierbench", commands))
    below = {name: _commands(parser) for name, parser in parsers.items()}
    known = list(parsers)
    return SCRIPT.format(
        zsh=ZSH if shell == "zsh" else "",
        groups="".join(f'            "{name}") command="{name}" ;;\n' for name in known),
        commands=_case("tierbench", [*commands, "--help", "--version"])
        + "".join(_case(name, [*below[name], *_options(parsers[name])], _positional(parsers[name])) for name in known),
        values="".join(_values(name, parser) for name, parser in parsers.items()),
    )


def _below(before: str, commands: dict[str, argparse.ArgumentParser]) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, parser in commands.items():
        yield f"{before} {name}", parser
        yield from _below(f"{before} {name}", _commands(parser))


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(groups[0].choices) if groups else {}


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def _positional(parser: argparse.ArgumentParser) -> tuple[list[str], str]:
    """What its first argument can be: words, and files."""
    first = next((a for a in parser._actions if not a.option_strings and not _is_group(a)), None)
    return _of(first) if first else ([], "")


def _is_group(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _of(action: argparse.Action) -> tuple[list[str], str]:
    if action.choices:
        return [str(choice) for choice in action.choices], ""
    if action.dest == "experiment":
        return list(shipped_experiments()), FILES
    if action.dest == "site":
        return list(known_sites()), FILES
    return [], RUNS if action.metavar in ("RUN", "A", "B", "FOLDER") else FILES


def _case(pattern: str, words: list[str], arguments: tuple[list[str], str] = ([], "")) -> str:
    own, files = arguments
    return f'        "{pattern}") words="{" ".join([*words, *own])}" files="{files}" ;;\n'


def _values(name: str, parser: argparse.ArgumentParser) -> str:
    """What may follow each option that takes a value."""
    taking = [action for action in parser._actions if action.option_strings and action.nargs != 0]
    return "".join(_case(f"{name} {option}", [], _of(action)) for action in taking for option in action.option_strings)
