"""Writes layer.safetensors: one layer as in Llama with random weights, an input, and what PyTorch makes of it.

It needs PyTorch alone, on a CPU: python3 layer.py. The file was written by PyTorch 1.13.0 of Debian 12.
"""
import json
import math
import struct

import torch
from torch.nn.functional import silu

ROWS, DIM, HEADS, KEYS, WIDTH, HIDDEN, EPSILON = 45, 112, 4, 2, 64, 96, 1e-5

torch.manual_seed(34)
shapes = {
    "self_attn.q_proj": (HEADS * WIDTH, DIM), "self_attn.k_proj": (KEYS * WIDTH, DIM), "self_attn.v_proj": (KEYS * WIDTH, DIM),
    "self_attn.o_proj": (DIM, HEADS * WIDTH), "mlp.gate_proj": (HIDDEN, DIM), "mlp.up_proj": (HIDDEN, DIM), "mlp.down_proj": (DIM, HIDDEN),
}
tensors = {name + ".weight": torch.randn(s) / math.sqrt(s[1]) for name, s in shapes.items()}
tensors["self_attn.q_proj.weight"] *= 2  # scores of some size, so that an error in them shows
for name in ("input_layernorm", "post_attention_layernorm"):
    tensors[name + ".weight"] = 1 + torch.randn(DIM) / 4
tensors["input"] = torch.randn(ROWS, DIM)
tensors = {name: t.bfloat16() for name, t in tensors.items()}


def layer(dtype):
    w = {name: t.to(dtype) for name, t in tensors.items()}

    def norm(x, name):  # as Llama does it: in at least float32
        wide = x if x.dtype == torch.float64 else x.float()
        return w[name + ".weight"] * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)).to(dtype)

    def project(x, name):
        return x @ w[name + ".weight"].T

    def rotate(x):
        angle = torch.arange(ROWS, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
        cos, sin = torch.cat([angle.cos()] * 2, 1).to(dtype), torch.cat([angle.sin()] * 2, 1).to(dtype)
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def heads(x, n):  # heads x rows x width
        return x.view(ROWS, n, WIDTH).transpose(0, 1)

    x = w["input"]
    h = norm(x, "input_layernorm")
    q = rotate(heads(project(h, "self_attn.q_proj"), HEADS))
    k = rotate(heads(project(h, "self_attn.k_proj"), KEYS)).repeat_interleave(HEADS // KEYS, 0)
    v = heads(project(h, "self_attn.v_proj"), KEYS).repeat_interleave(HEADS // KEYS, 0)
    scores = q @ k.transpose(1, 2) / math.sqrt(WIDTH) + torch.full((ROWS, ROWS), -math.inf, dtype=dtype).triu(1)
    wide = scores if dtype == torch.float64 else scores.float()
    attended = torch.softmax(wide, -1).to(dtype) @ v
    x = x + project(attended.transpose(0, 1).reshape(ROWS, HEADS * WIDTH), "self_attn.o_proj")
    h = norm(x, "post_attention_layernorm")
    return x + project(silu(project(h, "mlp.gate_proj")) * project(h, "mlp.up_proj"), "mlp.down_proj")


tensors["output"] = layer(torch.float64).float()  # what is true, of these weights
tensors["output.bfloat16"] = layer(torch.bfloat16)  # PyTorch with the types of the program

header, data = {"__metadata__": {"torch": torch.__version__}}, b""
for name, t in tensors.items():
    raw = t.contiguous().view(torch.int16) if t.dtype == torch.bfloat16 else t.contiguous()
    raw = struct.pack("<%d%s" % (t.numel(), "h" if t.dtype == torch.bfloat16 else "f"), *raw.flatten().tolist())
    header[name] = {"dtype": "BF16" if t.dtype == torch.bfloat16 else "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(__file__.replace(".py", ".safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
print("PyTorch in bfloat16 is away by", (tensors["output"] - tensors["output.bfloat16"].float()).abs().max().item(), "of at most", tensors["output"].abs().max().item())
