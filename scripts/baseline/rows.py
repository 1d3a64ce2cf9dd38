#!/usr/bin/env python3
"""What norms, softmax and attention of one query take in PyTorch: the shapes of gpuc's TestTimesOfRowsOnHardware, of BFloat16.

    python3 rows.py

Each figure is the median of CUDA graphs whose calls take sets of data in turns, so that none comes from a cache. Bytes
count once for reading and once for writing, and are compared with a copy on the device. Of attention there is a line for
each backend that takes the call.

Exit codes: 0 done, 3 PyTorch or a device is missing.
"""

import sys


def median(torch, sets, call):
    """Microseconds of a call. What the calls return lives until the end, so that no two write the same memory."""
    calls, kept = (8 + sets - 1) // sets * sets, []
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            kept.append(call(i % sets))
    took = []
    for _ in range(14):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end) * 1000 / calls)
    took = sorted(took[3:])  # the first ones warm up
    return took[len(took) // 2]


def report(torch, what, size, sets, source, target, call):
    """Prints one line. size is what has to be read and written; source and target have a tensor for each set."""
    us = median(torch, sets, call)
    copied = median(torch, sets, lambda i: target[i].copy_(source[i]))
    rate = size / us / 1e3
    of_copy = rate / (2 * source[0].nbytes / copied / 1e3)
    print(f"torch {what:<70} {us:9.1f} us {rate:6.0f} GB/s, {of_copy:.2f} of a copy", flush=True)


def rotated(size):
    """How many copies of so many bytes are together larger than any cache of a device."""
    return ((256 << 20) - 1) // size + 1


def random(torch, *shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def rows(torch, count, cols):
    f = torch.nn.functional
    sets = rotated(4 * count * cols)
    x, out = random(torch, sets, count, cols), random(torch, sets, count, cols)
    weight, bias = random(torch, cols), random(torch, cols)
    for name, call in (
        ("LayerNorm", lambda i: f.layer_norm(x[i], (cols,), weight, bias, 1e-5)),
        ("RMSNorm", lambda i: f.rms_norm(x[i], (cols,), weight, 1e-5)),
        ("Softmax", lambda i: torch.softmax(x[i], -1)),
    ):
        report(torch, f"{name} {count} x {cols}", 4 * count * cols, sets, x, out, call)


def causal(torch, batch, n):
    sets = rotated(4 * batch * n * n)
    x, out = random(torch, sets, batch, n, n), random(torch, sets, batch, n, n)
    hidden = torch.ones(n, n, dtype=torch.bool, device="cuda").triu(1)
    size = 2 * batch * (n * n + n * (n + 1) // 2)
    what = f"Softmax {batch} x {n} x {n} causal"
    report(torch, what, size, sets, x, out, lambda i: torch.softmax(x[i].masked_fill(hidden, float("-inf")), -1))
    report(torch, what + ", without the mask", size, sets, x, out, lambda i: torch.softmax(x[i], -1))


def decode(torch, sequences, capacity, heads=32, keys=8, width=128):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    f = torch.nn.functional
    size = 4 * sequences * capacity * keys * width
    sets = rotated(size)
    q = random(torch, sequences, heads, 1, width)
    k, v = (random(torch, sets, sequences, capacity, keys, width) for _ in range(2))
    what = f"Decode {sequences} of {capacity} rows, {heads} heads, {keys} of keys, {width} columns"

    def call(i):
        return f.scaled_dot_product_attention(q, k[i].transpose(1, 2), v[i].transpose(1, 2), enable_gqa=True)

    for backend in SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION:
        try:
            with sdpa_kernel(backend):
                name = backend.name.split("_")[0].lower()
                report(torch, f"{what}, {name}", size, sets, k, v, call)
        except RuntimeError as e:
            print(f"rows.py: {what}, {backend.name}: {str(e).splitlines()[0]}", file=sys.stderr)


def main():
    try:
        import torch
    except ImportError as e:
        print(f"rows.py: {e}", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("rows.py: PyTorch sees no device", file=sys.stderr)
        return 3
    print(f"torch: {torch.__version__}, {torch.cuda.get_device_name()}")
    with torch.no_grad():
        for count, cols in (8192, 4096), (16384, 1024), (4096, 8192), (64, 4096):
            rows(torch, count, cols)
            torch.cuda.empty_cache()
        causal(torch, 16, 2048)
        for sequences, capacity in (64, 4096), (64, 16384), (8, 4096), (1, 32768), (1, 512):
            torch.cuda.empty_cache()
            decode(torch, sequences, capacity)
    return 0


if __name__ == "__main__":
    sys.exit(main())
