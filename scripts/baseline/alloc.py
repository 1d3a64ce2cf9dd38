#!/usr/bin/env python3
"""What allocating costs in Python: CuPy's memory pool and PyTorch's caching allocator.

    python3 alloc.py [--seconds S] [LOG...]

LOG is a file in the format of arena/testdata. The output has the format of Go's
benchmarks, beside those of package arena and of alloc.c; /impl=cupy and /impl=torch are at
the end of the names. A library that cannot be imported is named on stderr and left out.
The cost is that of the allocator as a program sees it, the interpreter included.

Peaks are what the allocator had from the driver, not what was in use. Frees are made on
the stream that was current at the allocation, since neither library has another way; waits
are events.

Exit codes: 0 done, 2 usage, 3 neither library is there, or no device.
"""

import argparse
import os
import sys
import time

SIZES = {"4KiB": 4 << 10, "1MiB": 1 << 20, "64MiB": 64 << 20}


def read_log(path):
    """The actions of a log, and how many streams it needs."""
    actions, streams = [], 0
    with open(path, encoding="ascii") as lines:
        for line in lines:
            fields = line.split("#")[0].split()
            if not fields:
                continue
            numbers = tuple(int(f) for f in fields[1:])
            actions.append((fields[0],) + numbers)
            streams = max(streams, numbers[1] + 1, numbers[0] + 1 if fields[0] == "w" else 0)
    return actions, streams


class CuPy:
    """The default pool of CuPy: best fit with splitting, an arena for every stream."""

    name = "cupy"

    def __init__(self):
        import cupy

        self.cupy = cupy
        cupy.cuda.runtime.getDeviceCount()
        self.reset()

    def reset(self):
        self.pool = self.cupy.cuda.MemoryPool()
        self.event = self.cupy.cuda.Event(disable_timing=True)

    def new_stream(self):
        return self.cupy.cuda.Stream(non_blocking=True)

    def use(self, stream):
        return stream

    def alloc(self, size):
        return self.pool.malloc(size)

    def wait(self, stream, other):
        self.event.record(other)
        stream.wait_event(self.event)

    def synchronize(self):
        self.cupy.cuda.runtime.deviceSynchronize()

    def peak(self):
        # The pool gives nothing back by itself, so that its total is its peak.
        return self.pool.total_bytes()

    def end(self):
        self.pool.free_all_blocks()


class Torch:
    """The caching allocator of PyTorch."""

    name = "torch"

    def __init__(self):
        import torch

        self.torch = torch
        if not torch.cuda.is_available():
            raise RuntimeError("torch has no CUDA device")
        torch.cuda.init()
        self.reset()

    def reset(self):
        self.torch.cuda.empty_cache()
        self.torch.cuda.reset_peak_memory_stats()

    def new_stream(self):
        return self.torch.cuda.Stream()

    def use(self, stream):
        return self.torch.cuda.stream(stream)

    def alloc(self, size):
        return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")

    def wait(self, stream, other):
        stream.wait_stream(other)

    def synchronize(self):
        self.torch.cuda.synchronize()

    def peak(self):
        return self.torch.cuda.max_memory_reserved()

    def end(self):
        self.torch.cuda.empty_cache()


def bench_pairs(lib, seconds):
    for name, size in SIZES.items():
        lib.reset()
        with lib.use(lib.new_stream()):
            block = lib.alloc(size)
            del block
            n = 1000
            while True:
                start = time.perf_counter_ns()
                for _ in range(n):
                    block = lib.alloc(size)
                    del block
                took = time.perf_counter_ns() - start
                if took >= seconds * 1e9:
                    break
                n *= 2
            lib.synchronize()
        print(f"BenchmarkAllocFree/on=hardware/size={name}/impl={lib.name}\t{n:8d}\t{took / n:12.2f} ns/op", flush=True)


def replay(lib, actions, streams):
    """Does what a log says once. Entering a stream is not part of the allocator's cost
    in a program that stays on one, so it is only done when the stream changes."""
    blocks, current, entered = {}, None, None
    for action in actions:
        kind = action[0]
        if kind == "a":
            _, block, stream, size = action
            if stream != current:
                if entered is not None:
                    entered.__exit__(None, None, None)
                entered = lib.use(streams[stream])
                entered.__enter__()
                current = stream
            blocks[block] = lib.alloc(size)
        elif kind == "f":
            del blocks[action[1]]
        else:
            lib.wait(streams[action[1]], streams[action[2]])
    if entered is not None:
        entered.__exit__(None, None, None)


def bench_log(lib, path, seconds):
    actions, count = read_log(path)
    lib.reset()
    streams = [lib.new_stream() for _ in range(count)]
    replay(lib, actions, streams)
    lib.synchronize()
    took, n = 0, 0
    while took < seconds * 1e9:
        start = time.perf_counter_ns()
        replay(lib, actions, streams)
        took += time.perf_counter_ns() - start
        n += 1
        lib.synchronize()
    name = os.path.basename(path).split(".")[0]
    print(
        f"BenchmarkReplay/on=hardware/log={name}/impl={lib.name}\t{n:8d}\t{took / n:12.2f} ns/op"
        f"\t{took / n / len(actions):12.2f} ns/action\t{lib.peak()} peak-bytes",
        flush=True,
    )
    lib.end()


def main():
    parser = argparse.ArgumentParser(description="The cost of allocating with CuPy and PyTorch.")
    parser.add_argument("--seconds", type=float, default=1, help="of every benchmark")
    parser.add_argument("logs", nargs="*", metavar="LOG")
    arguments = parser.parse_args()
    done = 0
    for library in (CuPy, Torch):
        try:
            lib = library()
        except Exception as reason:  # ImportError, or one of the library's own for no device
            print(f"alloc.py: {library.name} is left out: {reason}", file=sys.stderr)
            continue
        bench_pairs(lib, arguments.seconds)
        for path in arguments.logs:
            bench_log(lib, path, arguments.seconds)
        done += 1
    return 0 if done else 3


if __name__ == "__main__":
    sys.exit(main())
