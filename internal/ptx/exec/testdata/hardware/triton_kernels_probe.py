"""The Triton kernels of run.py."""
import triton
import triton.language as tl


@triton.jit
def vadd(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + row * n + i, mask=m, other=-float("inf")) * 0.01
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + row * n + i, v / tl.sum(v, axis=0), mask=m)


@triton.jit
def rows(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    k = v.to(tl.int32)
    out = o + row * (BLOCK + 3)
    tl.store(out, tl.sum(k, axis=0).to(tl.float32))
    tl.store(out + 1, tl.max(v, axis=0))
    tl.store(out + 2, tl.argmin(v, axis=0).to(tl.float32))
    tl.store(out + 3 + i, tl.cumsum(k, axis=0).to(tl.float32))


@triton.jit
def matmul(a, b, o, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0) // (n // BN)
    pn = tl.program_id(0) % (n // BN)
    i = pm * BM + tl.arange(0, BM)
    j = pn * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for s in range(0, n, BK):
        x = tl.load(a + i[:, None] * 32 + s % 2 + k[None, :])
        y = tl.load(b + (k[:, None] + s % 2) * 40 + j[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(o + i[:, None] * n + j[None, :], acc)


@triton.jit
def matmul64(a, b, o, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.arange(0, BM)
    j = tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for s in range(0, n, BK):
        x = tl.load(a + i[:, None] * 32 + k[None, :])
        y = tl.load(b + k[:, None] * 40 + j[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(o + i[:, None] * n + j[None, :], acc)


@triton.jit
def histogram(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m, other=0)
    tl.atomic_add(o + (v & 255), v >> 8, mask=m)
