"""Client machines, networks and servers for tests that need a stock Linux NFS client.

docs/testing.md explains how the parts fit together and what to watch out for.
"""
