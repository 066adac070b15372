"""XDR (RFC 4506) to and from bytes.

A Packer appends, an Unpacker reads and never runs past its end: a truncated message is an XdrError.
Nothing here knows NFS.
"""

import struct


class XdrError(Exception):
    """The bytes are not what the caller expected to decode."""


class Packer:
    """Appends encoded values; every method returns the packer, so that calls can be chained."""

    def __init__(self):
        self._parts = []

    def uint32(self, value):
        self._parts.append(struct.pack(">I", value))
        return self

    def uint64(self, value):
        self._parts.append(struct.pack(">Q", value))
        return self

    def boolean(self, value):
        return self.uint32(1 if value else 0)

    def fixed(self, value, size):
        """Opaque of a size both sides know."""
        assert len(value) == size, (len(value), size)
        return self.raw(value + b"\0" * (-size % 4))

    def opaque(self, value):
        """Opaque or string with its length before it."""
        if isinstance(value, str):
            value = value.encode()
        self.uint32(len(value))
        return self.fixed(value, len(value))

    def array(self, values, pack):
        """A counted array; pack(packer, value) encodes one."""
        self.uint32(len(values))
        for value in values:
            pack(self, value)
        return self

    def raw(self, data):
        """Bytes that are encoded already."""
        self._parts.append(data)
        return self

    def bytes(self):
        return b"".join(self._parts)


class Unpacker:
    def __init__(self, data):
        self._data = memoryview(data)
        self._at = 0

    def _take(self, size):
        if size > len(self._data) - self._at:
            raise XdrError(f"{size} bytes wanted at {self._at} of {len(self._data)}")
        start, self._at = self._at, self._at + size
        return self._data[start:self._at]

    def uint32(self):
        return struct.unpack(">I", self._take(4))[0]

    def uint64(self):
        return struct.unpack(">Q", self._take(8))[0]

    def boolean(self):
        value = self.uint32()
        if value > 1:
            raise XdrError(f"{value} is no boolean")
        return value == 1

    def fixed(self, size):
        value = bytes(self._take(size))
        self._take(-size % 4)
        return value

    def opaque(self):
        return self.fixed(self.uint32())

    def string(self):
        return self.opaque().decode()

    def array(self, unpack):
        """A counted array; unpack() decodes one element from this unpacker."""
        count = self.uint32()
        if count > self.remaining:
            raise XdrError(f"{count} elements in {self.remaining} bytes")
        return [unpack() for _ in range(count)]

    @property
    def remaining(self):
        return len(self._data) - self._at

    def rest(self):
        return bytes(self._take(self.remaining))

    def done(self):
        """Raises unless everything was read."""
        if self.remaining:
            raise XdrError(f"{self.remaining} bytes left over")
