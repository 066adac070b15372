"""Fixtures of the tests that drive Ganesha itself over the wire."""

import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parent)]

import ganesha_server  # noqa: E402
from wire import Client  # noqa: E402


@pytest.fixture
def start():
    """start(**options) starts a Ganesha that ends with the test."""
    reason = ganesha_server.missing()
    if reason:
        pytest.skip(reason)
    servers = []

    def make(**options):
        servers.append(ganesha_server.Ganesha(**options))
        return servers[-1]

    yield make
    for one in servers:
        one.stop()


@pytest.fixture
def server(start):
    """A server of the test's own: it starts in a fifth of a second, and many tests exist because
    they used to kill it."""
    one = start()
    yield one
    if one.ended is not None:  # shown with the test's failure
        print(f"the server ended with {one.ended}\n{one.log_tail(10)}")
    elif one.cpu_hungry():
        print("a thread of the server spins")


@pytest.fixture
def new_client(server):
    """new_client(**options) makes a Client that is closed after the test."""
    clients = []

    def make(**options):
        options.setdefault("timeout", 5.0)
        clients.append(Client(server.address, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(new_client):
    return new_client()
