"""Forward TCP connections as from far away: each byte and each end arrives later by half the round-trip time.

usage: far-away.py RTT_MS PORT=HOST:PORT [PORT=HOST:PORT ...]

Stands for a host that steers transfers from another continent: what it says, and what is answered, goes by here, and
the data do not. Only TCP's own handshakes are as short as they are: to open a connection costs a round trip too few.
"""

import asyncio
import contextlib
import sys

BLOCK = 65536


async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float) -> None:
    """Hand on what comes, in its order, each piece when its time has come."""
    clock = asyncio.get_running_loop().time
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def take() -> None:
        piece = b"begin"
        while piece:
            with contextlib.suppress(ConnectionError):
                piece = await source.read(BLOCK)
            await on_the_way.put((clock() + delay_s, piece))

    taking = asyncio.create_task(take())
    with contextlib.suppress(ConnectionError):
        while True:
            due, piece = await on_the_way.get()
            await asyncio.sleep(due - clock())
            if not piece:
                sink.write_eof()
                break
            sink.write(piece)
            await sink.drain()
    taking.cancel()


async def serve(port: int, host: str, its_port: int, delay_s: float) -> asyncio.Server:
    async def forward(near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        await asyncio.sleep(delay_s)
        try:
            far_in, far_out = await asyncio.open_connection(host, its_port)
        except OSError:
            near_out.close()
            return
        await asyncio.gather(carry(near_in, far_out, delay_s), carry(far_in, near_out, delay_s))
        near_out.close()
        far_out.close()

    return await asyncio.start_server(forward, port=port)


async def main() -> None:
    rtt_ms, *lines = sys.argv[1:]
    for line in lines:
        port, _, target = line.partition("=")
        host, _, its_port = target.rpartition(":")
        await serve(int(port), host, int(its_port), float(rtt_ms) / 2000)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
