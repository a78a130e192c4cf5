"""A TCP proxy that delays every byte by the same time in both directions: delayed_proxy.py PORT
HOST:PORT SECONDS. One round trip through the proxy takes twice the time more."""

import asyncio
import sys


async def carry(reader, writer, delay):
    """Later bytes do not wait for earlier ones: a pipelined question costs one round trip."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Queue(1024)

    async def send():
        while (item := await waiting.get()) is not None:
            at, data = item
            await asyncio.sleep(at - loop.time())
            writer.write(data)
            await writer.drain()
        writer.close()

    sender = asyncio.create_task(send())
    while data := await reader.read(1 << 16):
        await waiting.put((loop.time() + delay, data))
    await waiting.put(None)
    await sender


async def main(port, host, far_port, delay):
    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection(host, far_port)
        await asyncio.gather(
            carry(reader, far_writer, delay),
            carry(far_reader, writer, delay),
            return_exceptions=True,
        )

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    far_host, _, far = sys.argv[2].rpartition(":")
    asyncio.run(main(int(sys.argv[1]), far_host, int(far), float(sys.argv[3])))
