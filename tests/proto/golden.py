#!/usr/bin/env python3
"""golden.py - the bytes and ids that tests pin, worked out a second time.

Written from docs/format-objects.md and docs/protocol.md, whole levels at a time
where the C code streams.  Not run by the tests: it is how their constants
were made, and a reference for whoever writes another reader.  Needs
libxxhash.
"""
import ctypes
import hashlib
import hmac
from struct import pack, unpack

M64 = (1 << 64) - 1


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


xxhash = ctypes.CDLL("libxxhash.so.0")
xxhash.XXH3_128bits.restype = Hash128
xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh128(data):
    h = xxhash.XXH3_128bits(data, len(data))
    return pack(">QQ", h.high, h.low)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def object_id(kind, plain):
    return hashlib.sha256(bytes([kind]) + plain).digest()


# ---- pages ------------------------------------------------------------------

class Item:
    def __init__(self, data, weight, key=b"", oid=None):
        self.data, self.weight, self.key, self.id = data, weight, key, oid


class Pages:
    def __init__(self, magic, kind, page_min, page_max, cut, child):
        self.magic, self.kind = magic, kind
        self.page_min, self.page_max = page_min, page_max
        self.cut, self.child = cut, child

    def split(self, level, items):
        pages, page, size = [], [], 8
        for item in items:
            if size + len(item.data) > self.page_max:           # P2
                pages.append(page)
                page, size = [], 8
            page.append(item)
            size += len(item.data)
            if size >= self.page_min and self.cut(level, item):  # P1
                pages.append(page)
                page, size = [], 8
        if page or not pages:
            pages.append(page)
        if level > 0 and len(pages) > 1 and len(pages[-1]) == 1:  # P4
            total = sum(len(i.data) for i in pages[-2] + pages[-1])
            if 8 + total <= self.page_max:
                pages[-2] += pages.pop()
            else:
                pages[-1].insert(0, pages[-2].pop())
        return pages

    def build(self, items):
        """(root id, its level, number of pages)"""
        level = count = 0
        while True:
            children = []
            for page in self.split(level, items):
                plain = self.magic + bytes([1, level]) + \
                    pack("<HH", len(page), 0) + \
                    b"".join(i.data for i in page)
                count += 1
                children.append(self.child(object_id(self.kind, plain),
                    sum(i.weight for i in page),
                    page[0].key if page else b""))
            if len(children) == 1:                               # P3
                return children[0].id, level, count
            items, level = children, level + 1


def tree_cut(level, item):
    h = unpack("<I", xxh128(bytes([level]) + item.key)[:4])[0]
    return h >> 18 < len(item.data)


def tree_child(oid, weight, key):
    return Item(oid + pack("<QH", weight, len(key)) + key, weight, key, oid)


def list_cut(level, item):
    return item.id is not None and item.id[31] == 0


def list_child(oid, weight, key):
    return Item(pack("<Q", weight) + oid, weight, key, oid)


trees = Pages(b"bT", 3, 16 << 10, 56 << 10, tree_cut, tree_child)
lists = Pages(b"bL", 2, 8 << 10, 56 << 10, list_cut, list_child)


def field(tag, value):
    return bytes([tag]) + pack("<H", len(value)) + value


def entry(fields):
    data = b"".join(field(t, v) for t, v in sorted(fields.items()))
    return pack("<H", len(data)) + data


def numbered_files(count):
    for k in range(count):
        name = b"file %08d.dat" % k
        yield Item(entry({
            128: name, 129: pack("<I", 0o100644),
            131: pack("<qI", 1700000000 + k, k),
            132: b"\1" + object_id(1, name), 133: pack("<Q", k + 1),
            1: b"root", 2: b"root"}), 1, name)


def numbered_chunks(count):
    for k in range(count):
        if k % 1000 == 999:
            yield Item(b"\2" + pack("<Q", k + 1), k + 1)
            continue
        oid, size = object_id(1, b"chunk %d" % k), 65536 + k % 7
        yield Item(b"\1" + pack("<Q", size) + oid, size, b"", oid)


# ---- frames -----------------------------------------------------------------

def frame(objects):
    """objects: (type, plain, [refs]); stored as they are"""
    plain = b"".join(p for _, p, _ in objects)
    refs = b"".join(b"".join(r) for _, _, r in objects)
    head = b"bkF1\1\0\0\0" + pack("<IIHHIIII", 0, 0, len(objects), 0,
        len(refs) // 32, len(plain), len(plain), 0)
    rows = b"".join(object_id(t, p) + pack("<IHBB", len(p), len(r), t, 0)
        for t, p, r in objects)
    data = head + pack("<I", crc32c(head + rows + refs)) + rows + refs + plain
    return data + xxh128(data)


# ---- cut points -------------------------------------------------------------

def gear_table(seed):
    table = []
    for block in range(64):
        table += unpack("<4Q", hmac.new(seed, b"bk cut 1" +
            pack("<I", block), hashlib.sha256).digest())
    return table


def next_cut(gear, data):
    low, avg, high = 32 << 10, 64 << 10, 256 << 10
    h = 0
    for n in range(min(len(data), high)):
        limit = (1 << 64) // (4 * avg if n <= avg else avg // 4)
        if n >= low and h < limit:
            return n
        h = (h << 1) + gear[data[n]] & M64
    return min(len(data), high)


def random_bytes(state, size):
    """splitmix64, as in tests/client/test_chunker.c"""
    out = bytearray()
    while len(out) < size:
        state = state + 0x9e3779b97f4a7c15 & M64
        z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & M64
        z = (z ^ z >> 27) * 0x94d049bb133111eb & M64
        out += pack("<Q", z ^ z >> 31)
    return bytes(out)


# ---- what the tests pin -----------------------------------------------------

def show(name, data):
    print(name)
    for at in range(0, len(data), 30):
        print('    "%s"' % data[at:at + 30].hex())


def show_pages():
    ids = [bytes([k] * 32) for k in range(16)]
    show("tree leaf", b"bT\1\0" + pack("<HH", 5, 0) + entry({
        128: b"a file", 129: pack("<I", 0o100644),
        130: pack("<II", 1000, 100), 131: pack("<qI", -2, 999999999),
        132: b"\1" + ids[1], 133: pack("<Q", 12345), 137: pack("<Q", 77),
        138: b"\x06user.a" + pack("<I", 3) + b"xyz" +
             b"\x06user.b" + pack("<I", 0),
        1: b"anna", 2: b"users", 3: pack("<qI", 1700000000, 5),
        4: pack("<I", 0x10), 5: pack("<I", 42), 6: b"\1"}) + entry({
        128: b"b dir", 129: pack("<I", 0o40755),
        131: pack("<qI", 1700000001, 0), 134: ids[2], 139: ids[3],
        7: pack("<QQ", 3, 4096)}) + entry({
        128: b"c link", 129: pack("<I", 0o120777), 135: b"../target"}) +
        entry({
        128: b"d dev", 129: pack("<I", 0o20600), 136: pack("<II", 8, 1)}) +
        entry({
        128: b"e list", 129: pack("<I", 0o104755), 132: b"\2" + ids[4],
        133: pack("<Q", 1 << 40)}))
    show("tree index", b"bT\1\1" + pack("<HH", 2, 0) + ids[5] +
        pack("<QH", 300, 1) + b"a" + ids[6] + pack("<QH", 1, 5) + b"b dir")
    show("list leaf", b"bL\1\0" + pack("<HH", 3, 0) + b"\1" +
        pack("<Q", 65536) + ids[7] + b"\2" + pack("<Q", 1 << 33) + b"\1" +
        pack("<Q", 1) + ids[8])
    show("list index", b"bL\1\1" + pack("<HH", 2, 0) + pack("<Q", 1 << 34) +
        ids[9] + pack("<Q", 7) + ids[10])
    for count in 0, 1, 1000, 100000:
        root, level, pages = trees.build(list(numbered_files(count)))
        print("tree of", count, root.hex(), "level", level, "pages", pages)
    for count in 1, 1000, 300000:
        root, level, pages = lists.build(list(numbered_chunks(count)))
        print("list of", count, root.hex(), "level", level, "pages", pages)


def show_rest():
    chunk = object_id(1, b"hello")
    show("frame", frame([(1, b"hello", []), (2, b"bL\1\0" +
        pack("<HH", 2, 0) + b"\1" + pack("<Q", 5) + chunk + b"\2" +
        pack("<Q", 9), [chunk])]))
    show("record", bytes([1, 3]) + pack("<HI", 0, 0) + bytes(range(16)) +
        b"\x11" * 32 + b"\x22" * 32 +
        pack("<qqQiI", -5, 1700000000, 7, -3600, 0) +
        pack("<QQQQq", 1, 2, 3, 4, 1700000001))
    show("facts", b"bS\1" + field(1, b"/home") + field(1, b"/etc") +
        field(2, b"daily") + field(3, b"web1") + field(4, b"root") +
        field(5, b"bk 0.1"))
    show("HELLO", pack("<IIQ", 1, 3, 0) + b"\x06bk 0.1")
    show("WELCOME", pack("<IIQ", 1, 0, 0) + b"\xaa" * 16 + b"\xbb" * 16 +
        bytes(range(32)) + pack("<qIBBH", 1700000000, 5, 3, 6, 0) +
        b"bk 0.1")
    show("BEGIN", bytes(range(16)) + pack("<qI", 1700000000123456789, 0))
    show("COMMIT", b"\x11" * 32 + b"\x22" * 32 + pack("<qiI", -5, -3600, 3) +
        pack("<QQQQ", 1, 2, 3, 4) + bytes(16))
    show("ERROR", pack("<HBB", 4, 1, 0) + b"full")


def show_cuts():
    gear = gear_table(b"pinned by tests/client/chunker".ljust(32, b"\0"))
    print("gear", [hex(g) for g in gear[:4]])
    data, cuts = random_bytes(20240503, 1 << 20), []
    while data:
        cuts.append(next_cut(gear, data))
        data = data[cuts[-1]:]
    print("cuts", cuts)


if __name__ == "__main__":
    show_pages()
    show_rest()
    show_cuts()
