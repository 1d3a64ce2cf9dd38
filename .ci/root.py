"""The root that smoke has to find, computed without any of its code.

    python3 .ci/root.py PATH [CHUNK [ROUNDS]]

Every file is cut into chunks, a chunk's digest is its SHA-256, hashed ROUNDS times
more, and the root is the SHA-256 of all digests in order. Files of a folder come in
the order of the bytes of their path from there, with slashes.
"""
import hashlib
import os
import sys


def sha256(data):
    return hashlib.sha256(data).digest()


def files(path):
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            found.append(os.path.relpath(os.path.join(folder, name), path))
    found.sort(key=os.fsencode)
    return [os.path.join(path, name) for name in found]


def root(path, chunk, rounds):
    total = hashlib.sha256()
    for name in files(path):
        with open(name, "rb") as f:
            while data := f.read(chunk):
                digest = sha256(data)
                for _ in range(rounds):
                    digest = sha256(digest)
                total.update(digest)
    return total.hexdigest()


numbers = [int(n) for n in sys.argv[2:]] + [4096, 0][len(sys.argv) - 2:]
print(root(sys.argv[1], *numbers))
