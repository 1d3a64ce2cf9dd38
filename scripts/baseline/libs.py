#!/usr/bin/env python3
"""What calls of NVIDIA's libraries take through PyTorch: the same calls as in libs/*/bench_hardware_test.go.

    python3 libs.py [--seconds S]

The output has the format of Go's benchmarks. Matrices start as zeros for products in float32 and BFloat16, and as random numbers for all
other products. Factorizations start with a copy of a random matrix with a strong diagonal. The rates of attention and of a product with GELU are those of
gpuc's TestTimesOfTensorsOnHardware. With two devices it also adds over both, in a
process for each.

Exit codes: 0 done, 2 usage, 3 PyTorch or a device is missing.
"""

import argparse
import sys
import time


def measure(torch, seconds, calls, f):
    """Nanoseconds of a call, where calls are queued behind each other before a wait."""
    for _ in range(2):
        f()
    torch.cuda.synchronize()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(calls):
            f()
        torch.cuda.synchronize()
        done += calls
    return (time.perf_counter() - start) * 1e9 / done, done


def benchmarks(torch):
    """Name, calls before a wait, and a function that makes what is measured."""

    def product(n, kind):
        a, b, c = (torch.zeros(n, n, dtype=kind, device="cuda") for _ in range(3))
        return lambda: torch.mm(a, b, out=c)

    def batch():
        a, b, c = (torch.zeros(64, 512, 512, device="cuda") for _ in range(3))
        return lambda: torch.bmm(a, b, out=c)

    def int8():
        a, b = (torch.randint(-128, 128, (8192, 8192), dtype=torch.int8, device="cuda") for _ in range(2))
        return lambda: torch._int_mm(a, b.t())

    def tf32():
        a, b, c = (torch.randn(8192, 8192, device="cuda") for _ in range(3))

        def call():
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.mm(a, b.t(), out=c)
            torch.backends.cuda.matmul.allow_tf32 = False

        return call

    def fp8(fast):
        a, b = (torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)

    def gelu(m, n, k):
        a, b = torch.randn(m, k, dtype=torch.bfloat16, device="cuda"), torch.randn(n, k, dtype=torch.bfloat16, device="cuda")
        bias = torch.randn(n, dtype=torch.bfloat16, device="cuda")
        return lambda: torch.nn.functional.gelu(torch.addmm(bias, a, b.t()), approximate="tanh")

    def attention(backend, rows, heads, width, causal):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        which = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[backend]
        q, k, v = (torch.randn(1, rows, heads, width, dtype=torch.bfloat16, device="cuda").transpose(1, 2) for _ in range(3))

        def call():
            with torch.no_grad(), sdpa_kernel(which):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return call

    def matrix(kind):
        a = torch.rand(4096, 4096, dtype=kind, device="cuda")
        a = (a + a.T) / 2
        a.fill_diagonal_(4096)
        return a, torch.empty_like(a)

    def cholesky(kind):
        a, c = matrix(kind)
        return lambda: torch.linalg.cholesky(c.copy_(a))

    def svd(kind):
        a, c = matrix(kind)
        return lambda: torch.linalg.svd(c.copy_(a), driver="gesvd")

    def fft(*shape):
        x = torch.zeros(shape, dtype=torch.complex64, device="cuda")
        y = torch.empty_like(x)
        return lambda: torch.fft.fft(x, out=y)

    yield "Torch/call=sgemm4096", 8, lambda: product(4096, torch.float32)
    yield "Torch/call=bf16-8192", 8, lambda: product(8192, torch.bfloat16)
    yield "Torch/call=batch64x512", 8, batch
    yield "Torch/call=fp8-8192", 8, lambda: fp8(False)
    yield "Torch/call=fp8-8192-fast", 8, lambda: fp8(True)
    yield "Torch/call=int8-8192", 8, int8
    yield "Torch/call=tf32-8192", 8, tf32
    for m, n, k in (4096, 4096, 4096), (8192, 8192, 8192), (4096, 16384, 4096):
        yield f"Torch/call=gelu-{m}x{n}x{k}", 8, lambda m=m, n=n, k=k: gelu(m, n, k)
    for rows, heads, width in (4096, 32, 128), (4096, 32, 64), (4096, 16, 256), (16384, 8, 128), (16384, 8, 64):
        for causal in False, True:
            for backend in "cudnn", "flash":
                name = f"TorchAttention/{backend}/{heads}x{rows}x{width}" + "-causal" * causal
                yield name, 8, lambda backend=backend, rows=rows, heads=heads, width=width, causal=causal: attention(backend, rows, heads, width, causal)
    yield "Torch/call=fft-2^24", 8, lambda: fft(1 << 24)
    yield "Torch/call=fft-1024x4096", 8, lambda: fft(1024, 4096)
    for kind in torch.float32, torch.float64:
        yield f"TorchCholesky4096/{kind}".replace("torch.", ""), 1, lambda kind=kind: cholesky(kind)
        yield f"TorchSVD4096/{kind}".replace("torch.", ""), 1, lambda kind=kind: svd(kind)


def all_reduce(rank, address, ranks, seconds):
    """One of the ranks that add 256 MiB, queued behind each other."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=address, world_size=ranks, rank=rank)
    x = torch.zeros(64 << 20, device="cuda")
    for _ in range(5):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    count = max(8, int(seconds * 800))
    start = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    ns = (time.perf_counter() - start) * 1e9 / count
    if rank == 0:
        print(f"BenchmarkTorchAllReduce/devices={ranks}/bytes={256 << 20} {count} {ns:.0f} ns/op {(256 << 20) / ns * 1000:.2f} MB/s", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1)
    seconds = parser.parse_args().seconds
    try:
        import torch
    except ImportError as e:
        print(f"libs.py: {e}", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("libs.py: PyTorch sees no device", file=sys.stderr)
        return 3
    print(f"torch: {torch.__version__}, {torch.cuda.get_device_name()}")
    for name, calls, make in benchmarks(torch):
        try:
            ns, count = measure(torch, seconds, calls, make())
            print(f"Benchmark{name} {count} {ns:.0f} ns/op", flush=True)
        except (RuntimeError, AttributeError) as e:
            print(f"libs.py: {name}: {str(e).splitlines()[0]}", file=sys.stderr)
    ranks = 2
    while ranks <= torch.cuda.device_count():
        import torch.multiprocessing as mp

        mp.spawn(all_reduce, (f"tcp://127.0.0.1:{29511 + ranks}", ranks, seconds), nprocs=ranks)
        ranks *= 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
