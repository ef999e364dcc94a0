"""How a trial's clients begin, and when each of them does by what go.json says.

The gate writes it, the clients obey it, the tables compare with it. Stdlib only, Python 3.6 or newer.
"""

import json
from typing import NamedTuple

TOGETHER, NATURAL, EVERY, IN_TURN = "together", "natural", "every", "in-turn"
OVERLAPPING = ("", NATURAL, TOGETHER)  # clients that begin one by one, or take turns, do not fill a way together

# Each look at go.json has the access point's shadow, HTCondor's starter and the client at work; all clients of a trial
# together are to take so little of it that those which come later still start.
LOOKS_PER_S = 200
LEAST_PAUSE_S = 0.1
# A client wakes in 50 µs, one after the other where they share a core: twice that, since the first one to work while
# others still wake has them come later, who then wake among the more that work.
AWAKE_IN_S, MOST_ON_A_HOST = 100e-6, 1000


def pause_between_looks(clients: int) -> float:
    """The seconds from one look of a client at go.json to its next one, of a trial of so many clients."""
    return max(LEAST_PAUSE_S, clients / LOOKS_PER_S)


def lead(clients: int) -> float:
    """So many seconds ahead a go is given: in them each client has looked, and has been answered."""
    return 0.3 + 1.5 * pause_between_looks(clients)


def settling(clients: int) -> float:
    """So many seconds after the go the processes are let go: by then each client is awake, and none waits for them."""
    return max(0.01, min(clients, MOST_ON_A_HOST) * AWAKE_IN_S)


class Go(NamedTuple):
    """go.json: when clients are to begin, and how often each was started by then; or why they are not to begin."""

    go_wall_ns: "int | None" = None
    starts: "dict[str, int]" = {}  # noqa: RUF012 - never changed
    step_ns: int = 0  # from one client to the next
    turns_wall_ns: "list[int] | None" = None  # of those clients whose turn has come, where they take turns
    called_off: "str | None" = None

    def begin(self, client: int) -> "int | None":
        """When this client is to begin, by the wall clock in nanoseconds; None where its turn has not come."""
        if self.turns_wall_ns is not None:
            return int(self.turns_wall_ns[client]) if client < len(self.turns_wall_ns) else None
        return None if self.go_wall_ns is None else int(self.go_wall_ns) + client * int(self.step_ns)

    @property
    def together(self) -> bool:
        return self.turns_wall_ns is None and not self.step_ns

    def turns_away(self, client: int) -> int:
        """How many clients have to end before this one's turn comes, where they take turns."""
        return max(0, client - len(self.turns_wall_ns or ()))

    def text(self) -> str:
        return json.dumps({"format": 1, **{name: value for name, value in self._asdict().items() if value}})


def read_go(text: str) -> Go:
    """The record of a go.json; ValueError where it is none."""
    table = json.loads(text)
    if not isinstance(table, dict):
        raise ValueError("go.json is no JSON object")
    return Go(**{name: table[name] for name in Go._fields if name in table})
