"""The preset `nanogpt-cpu` as an eager PyTorch loop: the same model, batches of the same shape, the same
optimizer and schedule, on a given number of threads.

usage: gpt.py TEXT STEPS THREADS      seconds a step, and the validation loss at the end
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12
RATE, LEAST, WARMUP = 1e-3, 1e-4, 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, bias=False)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = nn.LayerNorm(WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.token = nn.Embedding(vocabulary, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * LAYERS) if residual else 1))

    def forward(self, x, y):
        h = self.token(x) + self.position.weight[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        logits = self.norm(h) @ self.token.weight.T
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def main():
    path, steps, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1337)
    text = open(path, encoding="utf-8").read()
    code = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([code[c] for c in text])
    cut = int(0.9 * len(data))
    parts = data[:cut], data[cut:]

    def batch(part):
        starts = torch.randint(len(part) - CONTEXT, (BATCH,))
        rows = torch.stack([part[s : s + CONTEXT + 1] for s in starts])
        return rows[:, :-1], rows[:, 1:]

    model = Gpt(len(code))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99))
    begin = time.perf_counter()
    for step in range(steps):
        if step < WARMUP:
            rate = RATE * (step + 1) / (WARMUP + 1)
        else:
            share = (step - WARMUP) / max(1, steps - WARMUP)
            rate = LEAST + 0.5 * (1 + math.cos(math.pi * share)) * (RATE - LEAST)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = model(*batch(parts[0]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        losses = [model(*batch(parts[1])).item() for _ in range(200)]
    print(f"PyTorch {torch.__version__}, {threads} threads, {steps} steps in {seconds:.1f} s, "
          f"validation loss {sum(losses) / len(losses):.4f}")
    print(f"figure\tPyTorch eager\ttraining step\t{1e3 * seconds / steps}")


main()
