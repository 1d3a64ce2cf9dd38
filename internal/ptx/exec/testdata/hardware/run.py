"""Compiles kernels with nvcc, NVRTC and Triton, runs them on a GPU and writes what
hardware_test.go compares the interpreter with. scripts/hardware-ptx starts it:

    run.py SOURCES OUT

SOURCES holds probe.cu, the catalogue's .cu and purecuda.h. OUT gets *.ptx, outputs.bin
and manifest.json. Needs a CUDA 13 toolkit in $CUDA_HOME (/usr/local/cuda), a driver, and
Triton for the Triton kernels (left out where it is missing).
"""
import ctypes, glob, json, os, re, struct, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")
WORDS = 4096

# The inputs. hardware_test.go makes the same ones.
SPECIAL = [
    0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
    0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x4F000000, 0xCF000000,
    0x3C003C00, 0x7C00FC00, 0x7E010001, 0x7F807FC0, 0x03FF8400, 0x7FEFFFFF, 0x7FF00000, 0x3FF00000,
    0x4B000001, 0x3F000000, 0x40200000, 0xC0600000, 7, 0x7FFFFFFF, 0x41E00000, 0x43E00000,
]


def words():
    s, v = 1, []
    for i in range(WORDS):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2**64
        v.append(SPECIAL[(s >> 40) % 32] if i % 5 == 3 else s >> 32)
    return v


def signed(x, bits):
    return x - (1 << bits) if x >> (bits - 1) else x


def buffers():
    v = words()
    return {
        "in": struct.pack("<%dI" % WORDS, *v),
        "fin": struct.pack("<%df" % WORDS, *[(signed(x, 32) >> 8) * 2.0**-16 for x in v]),
        "hin": struct.pack("<%de" % WORDS, *[signed(x >> 24, 8) / 16 for x in v]),
        "chunks": b"".join(struct.pack("<QII", 16 * i, i * 37 % 200, 0) for i in range(64)),
    }


# kernel: grid, block, shared bytes, words of out, arguments, what out holds before
PROBE = {
    "x_dynamic": (2, 128, 768, 4096, ["in", "out", "u32:256"], ""),
    "x_struct": (2, 128, 0, 4096, ["in", "out", "u32:256", "hex:" + struct.pack(
        "<I3BxQQQQf4x", 77, 1, 2, 250, 1 << 40, 3, 2**64 - 1, 99, -1.5).hex()], ""),
    "x_atomic": (2, 128, 0, 64, ["in", "out", "u32:256"], ""),
}
CATALOGUE = {
    "vector_add": (4, 96, 0, 1000, ["in", "fin", "out", "u64:1000"], ""),
    "saxpy": (4, 96, 0, 1000, ["u32:0x3fd9999a", "fin", "out", "u64:1000"], "fin"),
    "sum": (4, 256, 0, 8, ["fin", "u64:4000", "out"], ""),
    "histogram256": (3, 96, 0, 512, ["in+3", "u64:16000", "out"], ""),
    "sha256_chunks": (1, 128, 0, 512, ["in", "chunks", "u32:64", "u32:2", "out"], ""),
}
# grid, words of out, arguments, constants, warps
TRITON = {
    "vadd": (4, 1000, ["fin", "fin+64", "out", "u32:1000"], {"BLOCK": 256}, 4),
    "softmax": (50, 3000, ["fin", "out", "u32:60"], {"BLOCK": 64}, 2),
    "rows": (32, 32 * 131, ["fin", "out", "u32:100"], {"BLOCK": 128}, 4),
    "matmul": (4, 4096, ["hin", "hin+64", "out", "u32:64"], {"BM": 32, "BN": 32, "BK": 32}, 4),
    "matmul64": (1, 4096, ["hin", "hin+64", "out", "u32:64"], {"BM": 64, "BN": 64, "BK": 32}, 4),
    "histogram": (4, 256, ["in", "out", "u32:4000"], {"BLOCK": 1024}, 4),
}


def log(*a):
    print(*a, flush=True)


def nvcc(src, name, flags, out):
    """Lines that a version of the headers refuses are left out and named."""
    text = open(src).read().split("\n")
    tmp = os.path.join(os.path.dirname(src), name + ".cu") if name != src else src
    for _ in range(4):
        open(tmp, "w").write("\n".join(text))
        p = subprocess.run([CUDA + "/bin/nvcc", "-ptx", "-std=c++17", *flags, "-o", out + "/" + name + ".ptx", tmp],
                           capture_output=True, text=True)
        if p.returncode == 0:
            return
        bad = {int(n) for n in re.findall(r"\.cu\((\d+)\): error", p.stderr)}
        log("nvcc", name, flags, p.stderr[:1500])
        for n in bad:
            log("left out", n, text[n - 1])
            text[n - 1] = ""
        if not bad:
            return


def nvrtc(src, name, arch, out):
    lib = None
    for path in [CUDA + "/lib64/libnvrtc.so", *glob.glob(CUDA + "/lib64/libnvrtc.so.*")]:
        try:
            lib = ctypes.CDLL(path)
            break
        except OSError as e:
            log(e)
    if lib is None:
        return
    prog = ctypes.c_void_p()
    lib.nvrtcCreateProgram(ctypes.byref(prog), open(src, "rb").read(), name.encode(), 0, None, None)
    opts = [b"--gpu-architecture=" + arch.encode(), b"--include-path=" + CUDA.encode() + b"/include",
            b"--include-path=" + CUDA.encode() + b"/include/cccl",
            b"--include-path=" + os.path.dirname(src).encode(), b"--device-int128", b"--std=c++17"]
    rc = lib.nvrtcCompileProgram(prog, len(opts), (ctypes.c_char_p * len(opts))(*opts))
    size = ctypes.c_size_t()
    if rc:
        lib.nvrtcGetProgramLogSize(prog, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetProgramLog(prog, text)
        log("nvrtc", name, rc, text.value.decode()[:1500])
        return
    lib.nvrtcGetPTXSize(prog, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetPTX(prog, text)
    open(out + "/" + name + ".ptx", "wb").write(text.value)


def triton_ptx(out):
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    import triton_kernels_probe as kernels

    types = {"in": "*i32", "fin": "*fp32", "hin": "*fp16"}
    for cap in (80, 90):
        for name, (grid, n, args, consts, warps) in TRITON.items():
            try:
                fn = getattr(kernels, name)
                sig, attrs = {}, {}
                for i, p in enumerate(fn.arg_names):
                    if p in consts:
                        sig[p] = "constexpr"
                    elif args[i] == "out":
                        sig[p], attrs[(i,)] = "*i32" if name == "histogram" else "*fp32", [["tt.divisibility", 16]]
                    elif args[i].startswith("u32"):
                        sig[p] = "i32"
                    else:
                        sig[p], attrs[(i,)] = types[args[i].split("+")[0]], [["tt.divisibility", 16]]
                src = ASTSource(fn=fn, signature=sig, constexprs=consts, attrs=attrs)
                k = triton.compile(src, target=GPUTarget("cuda", cap, 32), options={"num_warps": warps})
                file = "triton.%s.sm_%d" % (name, cap)
                open(out + "/" + file + ".ptx", "w").write(k.asm["ptx"])
                open(out + "/" + file + ".json", "w").write(json.dumps([k.metadata.shared, k.metadata.num_warps]))
            except Exception as e:
                log("triton", name, cap, repr(e)[:600])


def driver(name, *args):
    rc = getattr(driver.lib, name)(*args)
    if rc:
        raise RuntimeError("%s: %d" % (name, rc))


def execute(ptx, out):
    """Runs every kernel of one PTX file; the outputs go to a file beside it."""
    base = os.path.basename(ptx)[:-4]
    text = open(ptx, "rb").read()
    driver.lib = ctypes.CDLL("libcuda.so.1")
    driver("cuInit", 0)
    dev, ctx, mod = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuDeviceGet", ctypes.byref(dev), 0)
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), dev)
    driver("cuCtxSetCurrent", ctx)
    driver("cuCtxSetLimit", 0, ctypes.c_size_t(16384))
    driver("cuModuleLoadData", ctypes.byref(mod), text + b"\0")

    def alloc(n):
        p = ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(n))
        return p.value

    bufs = buffers()
    at = {}
    for k, v in bufs.items():
        at[k] = alloc(len(v))
        driver("cuMemcpyHtoD_v2", ctypes.c_uint64(at[k]), v, ctypes.c_size_t(len(v)))
    at["out"] = alloc(4 * 8192)
    manifest, blob = [], b""
    for name in re.findall(rb"\.entry\s+([\w$]+)", text):
        name = name.decode()
        if base.startswith("triton."):
            grid, n, args, _, warps = TRITON[name]
            shared, warps = json.load(open(out + "/" + base + ".json"))
            block, init = 32 * warps, ""
        else:
            grid, block, shared, n, args, init = {**PROBE, **CATALOGUE}.get(
                name, (2, 128, 0, 4096, ["in", "out", "u32:256"], ""))
        start = (bufs[init] if init else b"").ljust(4 * 8192, b"\0")
        driver("cuMemcpyHtoD_v2", ctypes.c_uint64(at["out"]), start, ctypes.c_size_t(len(start)))
        params = []
        for a in args:
            kind, _, v = a.partition(":")
            if kind == "u32":
                params.append(struct.pack("<I", int(v, 0)))
            elif kind == "u64":
                params.append(struct.pack("<Q", int(v, 0)))
            elif kind == "hex":
                params.append(bytes.fromhex(v))
            else:
                buf, _, off = a.partition("+")
                params.append(struct.pack("<Q", at[buf] + int(off or 0)))
        params += [b"\0" * 8] * 4
        keep = [ctypes.create_string_buffer(p, len(p)) for p in params]
        ptrs = (ctypes.c_void_p * len(keep))(*[ctypes.addressof(k) for k in keep])
        fn = ctypes.c_void_p()
        driver("cuModuleGetFunction", ctypes.byref(fn), mod, name.encode())
        if shared > 48 << 10:
            driver("cuFuncSetAttribute", fn, 8, shared)
        driver("cuLaunchKernel", fn, grid, 1, 1, block, 1, 1, shared, None, ptrs, None)
        driver("cuCtxSynchronize")
        got = ctypes.create_string_buffer(4 * n)
        driver("cuMemcpyDtoH_v2", got, ctypes.c_uint64(at["out"]), ctypes.c_size_t(4 * n))
        manifest.append({"module": base + ".ptx", "kernel": name, "grid": grid, "block": block, "shared": shared,
                         "args": args, "init": init, "at": len(blob) // 4, "words": n})
        blob += got.raw
    open(out + "/" + base + ".out", "wb").write(blob)
    json.dump(manifest, open(out + "/" + base + ".run", "w"))


def main(sources, out):
    os.makedirs(out, exist_ok=True)
    jobs = [(nvcc, sources + "/probe.cu", "probe.nvcc.sm_75", ["-O3", "-arch=sm_75"], out),
            (nvcc, sources + "/probe.cu", "probe.nvcc.sm_90", ["-O3", "-arch=sm_90"], out),
            (nvcc, sources + "/probe.cu", "probe.nvcc.debug", ["-G", "-arch=sm_90"], out),
            (nvrtc, sources + "/probe.cu", "probe.nvrtc.sm_90", "compute_90", out)]
    for k in CATALOGUE:
        jobs += [(nvcc, "%s/%s.cu" % (sources, k), k + ".nvcc.sm_75", ["-O3", "-arch=sm_75"], out),
                 (nvcc, "%s/%s.cu" % (sources, k), k + ".nvcc.sm_90", ["-O3", "-arch=sm_90"], out),
                 (nvrtc, "%s/%s.cu" % (sources, k), k + ".nvrtc.sm_90", "compute_90", out)]
        if k != "sha256_chunks":
            jobs.append((nvcc, "%s/%s.cu" % (sources, k), k + ".nvcc.debug", ["-G", "-arch=sm_90"], out))

    def step(*args):
        p = subprocess.run([sys.executable, __file__, *args], capture_output=True, text=True, timeout=40)
        if p.returncode or p.stdout:
            log(*args, p.stdout[-3000:], p.stderr[-800:])

    with ThreadPoolExecutor(16) as pool:
        work = [pool.submit(step, "triton", out)] + [pool.submit(*j) for j in jobs]
        for w in work:
            if w.exception():
                log(w.exception())
    log("compiled", len(glob.glob(out + "/*.ptx")))
    with ThreadPoolExecutor(6) as pool:
        for w in [pool.submit(step, "execute", p, out) for p in sorted(glob.glob(out + "/*.ptx"))]:
            if w.exception():
                log(w.exception())
    # One file of outputs: equal ones once.
    manifest, blob, seen = [], b"", {}
    for run in sorted(glob.glob(out + "/*.run")):
        data = open(run[:-4] + ".out", "rb").read()
        for m in json.load(open(run)):
            b = data[4 * m["at"]:4 * (m["at"] + m["words"])]
            if b not in seen:
                seen[b] = len(blob) // 4
                blob += b
            m["at"] = seen[b]
            manifest.append(m)
        os.remove(run), os.remove(run[:-4] + ".out")
    for f in glob.glob(out + "/triton.*.json"):
        os.remove(f)
    open(out + "/outputs.bin", "wb").write(blob)
    with open(out + "/manifest.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(m) for m in manifest) + "\n]\n")
    log("ran", len(manifest), "kernels,", len(blob), "bytes")


if sys.argv[1] == "triton":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    triton_ptx(sys.argv[2])
elif sys.argv[1] == "execute":
    execute(sys.argv[2], sys.argv[3])
else:
    main(sys.argv[1], sys.argv[2])
