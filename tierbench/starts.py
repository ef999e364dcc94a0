"""How a trial's clients begin, and when each of them does by what go.json says.

The gate writes it, the clients obey it, the tables compare with it. Stdlib only, Python 3.6 or newer.
"""

from typing import Any

TOGETHER, NATURAL, EVERY, IN_TURN = "together", "natural", "every", "in-turn"

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


def begin_of(go: "dict[str, Any]", client: int) -> "int | None":
    """When this client is to begin, by the wall clock in nanoseconds; None where its turn has not come."""
    if "turns_wall_ns" in go:
        turns = go["turns_wall_ns"]
        return int(turns[client]) if client < len(turns) else None
    return int(go["go_wall_ns"]) + client * int(go.get("step_ns", 0)) if "go_wall_ns" in go else None


def begins_together(go: "dict[str, Any]") -> bool:
    """Whether all clients begin at one instant."""
    return "turns_wall_ns" not in go and not go.get("step_ns")


def turns_away(go: "dict[str, Any]", client: int) -> int:
    """How many clients have to end before this one's turn comes, where they take turns."""
    return max(0, client - len(go.get("turns_wall_ns", ())))
