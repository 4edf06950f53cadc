"""The default network of `nre` in PyTorch: scores of ensembles over candidates, and training.

usage: nre.py scores FOLDER THREADS    one round: all scores of the cases in FOLDER
       nre.py train FOLDER THREADS     one round: a training of EPOCHS epochs on the pairs in FOLDER

It stays up. Each line on standard input asks for one round; it answers with its figures and `done`. Each is of seconds by
the clock; the case with `, processor` is of the seconds that the process computed, which others on the machine change less.
FOLDER holds little-endian arrays without headers: `weights.f32` (of each layer weights [inputs, outputs] and bias),
`observations.f32` [cases, OBSERVATIONS], `theta.f32` [candidates]; `train-x.f32` and so on.
"""
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WIDTHS = [2, 64, 64, 64, 64, 1]
OBSERVATIONS = 15
# What the study's settings say, and what fits in a core's cache.
ROWS = [65536, 2048]
EPOCHS, BATCH, RATE = 5, 128, 1e-3


class Spent:
    """The seconds that its block took."""

    def __enter__(self):
        self.begin = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.clock, self.processor = time.perf_counter() - self.begin[0], time.process_time() - self.begin[1]

    def tell(self, rival, case):
        print(f"figure\t{rival}\t{case}\t{self.clock}")
        print(f"figure\t{rival}\t{case}, processor\t{self.processor}")


def network():
    layers = []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])


def read(folder, name, dtype="<f4"):
    return torch.from_numpy(np.fromfile(f"{folder}/{name}", dtype=dtype))


def load(folder):
    model, values = network(), read(folder, "weights.f32")
    with torch.no_grad():
        for layer in model[::2]:
            count = layer.weight.numel()
            layer.weight.copy_(values[:count].view(layer.in_features, layer.out_features).T)
            layer.bias.copy_(values[count : count + layer.out_features])
            values = values[count + layer.out_features :]
    return model


def scores(model, observations, theta, rows):
    """[cases, candidates]: logits summed over the observations of a case, in blocks of about that many rows."""
    block = max(1, rows // OBSERVATIONS)
    out = torch.empty(len(observations), len(theta), dtype=torch.float64)
    for case, x in enumerate(observations):
        for begin in range(0, len(theta), block):
            part = theta[begin : begin + block]
            shape = len(part), OBSERVATIONS
            pairs = torch.stack([x.expand(shape), part[:, None].expand(shape)], -1).flatten(0, 1)
            out[case, begin : begin + block] = model(pairs).view(shape).sum(1, dtype=torch.float64)
    return out


def products(size=1024, count=16):
    """Products of square matrices by PyTorch's own kernel."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    out = torch.empty(size, size)
    for _ in range(count):
        torch.mm(a, b, out=out)


def auc(logits, labels):
    """The share of pairs of both classes that are in order; ties count half."""
    _, index, counts = np.unique(logits, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[index]
    ones = labels.sum()
    return (rank[labels == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(labels) - ones))


def validate(model, pairs, labels):
    with torch.inference_mode():
        logits = model(pairs)[:, 0]
        loss = F.binary_cross_entropy_with_logits(logits, labels).item()
        accuracy = ((logits >= 0) == (labels == 1)).double().mean().item()
    return loss, accuracy, auc(logits.numpy(), labels.numpy())


def train(splits, fused):
    torch.manual_seed(0)
    (pairs, labels), validation = splits
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=fused)
    history = []
    for _ in range(EPOCHS):
        order = torch.randperm(len(labels))
        # Gathered once an epoch; a batch is then a view.
        epoch_pairs, epoch_labels = pairs[order], labels[order]
        total = torch.zeros(())
        for at in range(0, len(order), BATCH):
            some, own = epoch_pairs[at : at + BATCH], epoch_labels[at : at + BATCH]
            loss = F.binary_cross_entropy_with_logits(model(some)[:, 0], own)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(own)
        history.append((total.item() / len(order), *validate(model, *validation)))
    return history


def main():
    what, folder, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    if what == "scores":
        model, theta = load(folder).eval(), read(folder, "theta.f32")
        observations = read(folder, "observations.f32").view(-1, OBSERVATIONS)
    else:
        def split(name):
            x, theta, y = (read(folder, f"{name}-{part}.f32") for part in ("x", "theta", "y"))
            return torch.stack([x, theta], 1), y

        splits = split("train"), split("validation")
    first = True
    for _ in sys.stdin:
        if what == "scores":
            with torch.inference_mode():
                for rows in ROWS:
                    with Spent() as spent:
                        out = scores(model, observations, theta, rows)
                    spent.tell(f"PyTorch, {rows} rows", "scores")
                with Spent() as spent:
                    products()
                spent.tell("PyTorch", "products")
            if first:
                out.numpy().tofile(f"{folder}/scores.f64")
        else:
            for name, fused in (("Adam", False), ("fused Adam", True)):
                with Spent() as spent:
                    history = train(splits, fused)
                spent.tell(f"PyTorch, {name}", "training")
            if first:
                losses = " ".join(f"{epoch[0]:.5f}" for epoch in history)
                loss, accuracy, area = history[-1][1:]
                print(f"PyTorch {torch.__version__}: training loss {losses}, validation {loss:.5f} {accuracy:.4f} {area:.4f}")
        first = False
        print("done", flush=True)


main()
