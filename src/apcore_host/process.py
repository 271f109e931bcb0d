"""How a server lives and ends in its process: signals, worker threads, the listening socket."""

import asyncio
import contextlib
import inspect
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["GRACE", "bind", "call_back", "configure_logging", "leave", "run_until_stopped", "serve_asgi"]

# Calls in flight have this long to finish; what follows must fit into the fifth second.
GRACE = 3.5
# Modules that are not async each occupy a thread, and one that hangs keeps it.
THREADS = 64


class _Threads(ThreadPoolExecutor):
    """Does not wait, at the end, for a module that never returns."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


def configure_logging(level: str | None) -> None:
    if level is None:
        return
    logging.basicConfig(level=level.upper())
    logging.getLogger("apcore_mcp").setLevel(level.upper())
    if level.upper() == "INFO":
        # The SDK has a line for every request.
        logging.getLogger("mcp").setLevel(logging.WARNING)


async def call_back(callback: Callable[[], Awaitable[None] | None] | None) -> None:
    result = callback() if callback is not None else None
    if inspect.isawaitable(result):
        await result


def run_until_stopped(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main` in an event loop of its own; SIGINT and SIGTERM set the event it is given."""

    async def start() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.set_default_executor(_Threads(THREADS))
        with _signals_call(lambda: loop.call_soon_threadsafe(stop.set)):
            await main(stop)

    asyncio.run(start())


@contextlib.contextmanager
def _signals_call(stop: Callable[[], Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def leave() -> None:
    """Let the process end although a module never returns; its thread would be waited for at exit."""
    current = threading.current_thread()
    others = [thread for thread in threading.enumerate() if thread is not current and not thread.daemon]
    for thread in others:
        thread.join(0.2)
    if any(thread.is_alive() for thread in others):
        logging.shutdown()
        sys.stderr.flush()
        os._exit(0)


def bind(host: str, port: int) -> socket.socket:
    """Listen before anything starts, so that a port in use is an `OSError` of the caller's."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    # asyncio sends small answers at once (TCP_NODELAY) only on sockets that say they speak TCP.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


async def serve_asgi(
    app: Any, listener: socket.socket, stop: asyncio.Event, drain: Callable[[], Awaitable[None]]
) -> None:
    """Serve until `stop`; then accept no connection, and leave those there are to `drain` for a while."""
    import uvicorn

    class Server(uvicorn.Server):
        # Uvicorn raises the signals it caught again when it is done, and a clean stop would end in an error.
        def capture_signals(self) -> Any:
            return contextlib.nullcontext()

    server = Server(uvicorn.Config(app, log_config=None, lifespan="off", access_log=False, timeout_graceful_shutdown=1))

    async def stop_serving() -> None:
        await stop.wait()
        for accepting in server.servers:
            accepting.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(drain(), GRACE)
        # Not before: event streams watch this, and end whatever they still had to send.
        server.should_exit = True

    stopping = asyncio.create_task(stop_serving())
    try:
        await server.serve(sockets=[listener])
    finally:
        stopping.cancel()
