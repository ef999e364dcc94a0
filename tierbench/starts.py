"""How a trial's clients begin, and when each of them does by what go.json says.

The gate writes it, the clients obey it, the tables compare with it. Stdlib only, Python 3.6 or newer.
"""

from typing import Any

TOGETHER, NATURAL, EVERY, IN_TURN = "together", "natural", "every", "in-turn"


def begin_of(go: "dict[str, Any]", client: int) -> "int | None":
    """When this client is to begin, by the wall clock in nanoseconds; None where its turn has not come."""
    if "turns_wall_ns" in go:
        turns = go["turns_wall_ns"]
        return int(turns[client]) if client < len(turns) else None
    return int(go["go_wall_ns"]) + client * int(go.get("step_ns", 0)) if "go_wall_ns" in go else None


def turns_away(go: "dict[str, Any]", client: int) -> int:
    """How many clients have to end before this one's turn comes, where they take turns."""
    return max(0, client - len(go.get("turns_wall_ns", ())))
