#!/usr/bin/python3
"""The same training step as `kvphase train`, written as one would plainly write it in PyTorch.

A Qwen3-style decoder with full, local or chunked attention per layer, full logits, cross-entropy on
the supervised positions, torch.optim.AdamW: batched matrix products, masks made once, no loop over
tokens. It reads the options that kvphase writes (train.json's "options") and prints one JSON line
with tokens per second over the timed steps. Written for PyTorch 1.13 and later.

Supported: what the recipes use (W = S on an aligned grid, vector gates with a bias per offset, maps
shared by the offsets, RoPE on all dims, tied embeddings); other options are refused.
"""

import argparse
import json
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rope(x, cos, sin):
    return x * cos + rotate_half(x) * sin


class Attention(nn.Module):
    def __init__(self, config, kind):
        super().__init__()
        c = config
        self.kind = kind
        self.heads, self.kv_heads, self.dim = c["query_heads"], c["kv_heads"], c["head_width"]
        self.window = c.get("chunk", {}).get("window")
        self.q_proj = nn.Linear(c["width"], self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(c["width"], self.kv_heads * self.dim, bias=False)
        self.v_proj = nn.Linear(c["width"], self.kv_heads * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, c["width"], bias=False)
        self.q_norm = RMSNorm(self.dim, c["norm_epsilon"])
        self.k_norm = RMSNorm(self.dim, c["norm_epsilon"])
        length = c["context_length"]
        t = torch.arange(length)
        frequency = c["rope_base"] ** (-torch.arange(0, self.dim, 2).float() / self.dim)
        angles = torch.outer(t.float(), frequency).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        causal = t[None, :] <= t[:, None]
        visible = causal
        if kind != "full":
            visible = causal & (t[:, None] - t[None, :] < c["local_window"])
        if kind == "chunked":
            w = self.window
            self.k_gate = nn.Linear(c["width"], self.kv_heads * self.dim, bias=False)
            self.v_gate = nn.Linear(c["width"], self.kv_heads * self.dim, bias=False)
            self.k_bias = nn.Parameter(torch.zeros(w, self.kv_heads, self.dim))
            self.v_bias = nn.Parameter(torch.zeros(w, self.kv_heads, self.dim))
            last = torch.arange(w - 1, length, w)  # an entry's last token
            visible = torch.cat((last[None, :] <= t[:, None], visible), dim=1)
            self.register_buffer("last", last)
        self.register_buffer("hidden", ~visible)

    def pool(self, scores, payload, bias):
        """scores and payload [B,T,G*D] of every token -> one entry per whole window [B,J,G,D]"""
        B, T, _ = scores.shape
        J, W = T // self.window, self.window
        shape = (B, J, W, self.kv_heads, self.dim)
        alpha = (scores[:, : J * W].reshape(shape) + bias).softmax(dim=2)
        return (alpha * payload[:, : J * W].reshape(shape)).sum(dim=2)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(B, T, self.heads, self.dim)).transpose(1, 2)
        k_raw = self.k_proj(x).view(B, T, self.kv_heads, self.dim)
        v = self.v_proj(x).view(B, T, self.kv_heads, self.dim)
        q = rope(q, self.cos[:T], self.sin[:T])
        k = rope(self.k_norm(k_raw).transpose(1, 2), self.cos[:T], self.sin[:T])
        v_heads = v.transpose(1, 2)
        if self.kind == "chunked":
            J = T // self.window
            ck = self.pool(self.k_gate(x), k_raw, self.k_bias)
            cv = self.pool(self.v_gate(x), v, self.v_bias)
            ck = rope(self.k_norm(ck).transpose(1, 2), self.cos[self.last[:J]], self.sin[self.last[:J]])
            k = torch.cat((ck, k), dim=2)
            v_heads = torch.cat((cv.transpose(1, 2), v_heads), dim=2)
        k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
        v_heads = v_heads.repeat_interleave(self.heads // self.kv_heads, dim=1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dim)
        scores = scores.masked_fill(self.hidden, float("-inf"))
        out = scores.softmax(dim=-1) @ v_heads
        return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))


class Block(nn.Module):
    def __init__(self, config, kind):
        super().__init__()
        c = config
        self.input_layernorm = RMSNorm(c["width"], c["norm_epsilon"])
        self.post_attention_layernorm = RMSNorm(c["width"], c["norm_epsilon"])
        self.attention = Attention(c, kind)
        self.gate_proj = nn.Linear(c["width"], c["ff_width"], bias=False)
        self.up_proj = nn.Linear(c["width"], c["ff_width"], bias=False)
        self.down_proj = nn.Linear(c["ff_width"], c["width"], bias=False)

    def forward(self, x):
        x = x + self.attention(self.input_layernorm(x))
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["width"])
        self.layers = nn.ModuleList(Block(c, kind) for kind in c["attention"])
        self.norm = RMSNorm(c["width"], c["norm_epsilon"])
        self.scale = c["embedding_scale"]
        nn.init.normal_(self.embed_tokens.weight, std=c["width"] ** -0.5)
        depth = (2 * c["layers"]) ** -0.5
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                std = module.in_features ** -0.5
                if name.endswith(("o_proj", "down_proj")):
                    std *= depth
                nn.init.normal_(module.weight, std=std)

    def forward(self, tokens):
        x = self.embed_tokens(tokens) * self.scale
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed_tokens.weight)


def make_batch(language, batch, generator):
    """Tokens [B,T] and targets [B,T], -100 where nothing is asked."""
    l = language
    key0, value0 = 1 + l["fillers"], 1 + l["fillers"] + l["keys"]
    n, room = l["records"], l["haystack"] - l["records"]

    def pick(size, count):  # distinct, in random order, one row per sequence
        return torch.rand(batch, size, generator=generator).argsort(dim=1)[:, :count]

    keys = key0 + pick(l["keys"], n)
    values = value0 + torch.randint(l["values"], (batch, n), generator=generator)
    starts = pick(room, n).sort(dim=1).values + torch.arange(n)
    haystack = 1 + torch.randint(l["fillers"], (batch, l["haystack"]), generator=generator)
    haystack.scatter_(1, starts, keys).scatter_(1, starts + 1, values)
    order = pick(n, l["queries"])
    queries = torch.stack((keys.gather(1, order), values.gather(1, order)), dim=2).flatten(1)
    tokens = torch.cat((haystack, torch.zeros(batch, 1, dtype=torch.long), queries), dim=1)
    targets = torch.full_like(tokens, -100)
    targets[:, l["haystack"] + 1 :: 2] = queries[:, 1::2]
    return tokens, targets


DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    """{name: tensor}; of the format only what kvphase writes here."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    return {
        name: torch.frombuffer(
            data, dtype=DTYPES[entry["dtype"]], offset=entry["data_offsets"][0],
            count=math.prod(entry["shape"]),
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


def load(model, tensors):
    """kvphase's parameters; every one of the model's must be there."""
    renamed = {}
    for name, tensor in tensors.items():
        name = name.removeprefix("model.").replace("self_attn.compressor.", "attention.")
        name = name.replace("self_attn.", "attention.").replace("mlp.", "")
        if name.endswith(("k_gate.bias", "v_gate.bias")):
            name = name.replace("_gate.bias", "_bias")
        renamed[name] = tensor
    with torch.no_grad():
        parameters = dict(model.named_parameters())
        left = set(renamed) ^ set(parameters)
        if left:
            raise SystemExit(f"expected the same parameters on both sides, got also {sorted(left)}")
        for name, parameter in parameters.items():
            parameter.copy_(renamed[name].reshape(parameter.shape))


def check(model, path):
    """Loss and gradient norm of kvphase's weights on kvphase's sequences, as JSON."""
    tensors = read_safetensors(path)
    tokens, rows, asked = (tensors.pop(f"batch.{name}") for name in ("tokens", "rows", "targets"))
    load(model, tensors)
    targets = torch.full_like(tokens, -100)
    targets[:, rows] = asked
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
    print(json.dumps({"loss": loss.item(), "gradient_norm": norm.item()}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("options", help="JSON file with kvphase's training options")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the clock starts")
    parser.add_argument("--check", metavar="FILE", help="compute on these weights, do not time")
    args = parser.parse_args()
    with open(args.options, encoding="utf-8") as file:
        options = json.load(file)
    config, language = options["model"], options["language"]
    chunk = config.get("chunk")
    plain = {"RoPE on all dims": config["rope_dims"] == config["head_width"]}
    if chunk:
        plain |= {
            "window = stride": chunk["window"] == chunk["stride"],
            "aligned grid": chunk["grid"] == "aligned",
            "vector gates with bias": chunk["gate"] == "vector" and chunk["gate_bias"],
            "shared maps": chunk["gate_maps"] == chunk["payload"] == "shared",
            "separate keys and values": not chunk["tied_kv"],
        }
    for what, supported in plain.items():
        if not supported:
            parser.error(f"expected {what}; the peer is written for the recipes only")

    torch.set_num_threads(args.threads)
    torch.manual_seed(options["seed"])
    generator = torch.Generator().manual_seed(options["seed"])
    model = Decoder(config)
    if args.check:
        check(model, args.check)
        return
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=options["learning_rate"],
        betas=(options["beta1"], options["beta2"]),
        weight_decay=options["weight_decay"],
    )
    warmup, total = options["warmup_steps"], options["steps"]

    def schedule(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, total - warmup - 1))
        floor = options["final_fraction"]
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    seconds = []
    for step in range(args.warmup + args.steps):
        begin = time.perf_counter()
        tokens, targets = make_batch(language, options["batch"], generator)
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options["clip_norm"])
        optimizer.step()
        scheduler.step()
        value = loss.item()
        if step >= args.warmup:
            seconds.append(time.perf_counter() - begin)
    asked = targets != -100
    right = (logits.argmax(-1)[asked] == targets[asked]).float().mean().item()
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "threads": args.threads,
                "steps": args.steps,
                "tokens_per_second": tokens.numel() / statistics.median(seconds),
                "median_step_seconds": statistics.median(seconds),
                "loss": value,
                "accuracy": right,
                "parameters": sum(p.numel() for p in model.parameters()),
            }
        )
    )


if __name__ == "__main__":
    main()
