"""The command `tierbench`, which `python -m tierbench` is as well."""

import signal
import sys


def main() -> int:
    """Run it; Ctrl-C while its modules are loaded ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tierbench.submit.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
