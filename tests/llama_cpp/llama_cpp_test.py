"""A real llama.cpp server over our exported checkpoints computes what we compute.

For each network: export it, serve the export with llama.cpp and the checkpoint with `kvphase serve`,
and compare the log-probabilities of the whole vocabulary behind 1,000 random prompts of token ids.

Usage: llama_cpp_test.py PROGRAM CHECKPOINT_TOOL MODELS
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from llama_cpp_server import start

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from kvphase_server import kvphase_server, post  # noqa: E402

TOLERANCE = 1e-3  # nats
TOP_1 = 0.999     # share of prompts whose likeliest token must be equal
BATCH = 50


def random_prompts(vocabulary, longest, count):
    generator = random.Random(1)
    return [[generator.randrange(vocabulary) for _ in range(generator.randint(1, longest))]
            for _ in range(count)]


def ours(url, prompts, vocabulary):
    """Log-probabilities {token: nats} behind every prompt, from kvphase serve."""
    replies = []
    for begin in range(0, len(prompts), BATCH):
        reply = post(url + "/v1/completions", {
            "prompt": prompts[begin:begin + BATCH], "max_tokens": 1, "temperature": 0,
            "logprobs": vocabulary, "return_tokens_as_token_ids": True})
        for choice in reply["choices"]:
            top = choice["logprobs"]["top_logprobs"][0]
            replies.append({int(name.removeprefix("token_id:")): p for name, p in top.items()})
    return replies


def theirs(url, prompts, vocabulary):
    """The same from llama.cpp, with the count of prompt tokens it evaluated."""
    replies = []
    for prompt in prompts:
        reply = post(url + "/completion", {
            "prompt": prompt, "n_predict": 1, "n_probs": vocabulary, "temperature": -1,
            "cache_prompt": False})
        assert reply["tokens_evaluated"] == len(prompt), reply["tokens_evaluated"]
        top = reply["completion_probabilities"][0]["top_logprobs"]
        replies.append({entry["id"]: entry["logprob"] for entry in top})
    return replies


class LlamaCpp(unittest.TestCase):
    def compare_random(self, kind, count):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = os.path.join(folder, "model")
            subprocess.run([CHECKPOINT_TOOL, kind, checkpoint], check=True)
            self.compare(kind, checkpoint, count)

    def compare(self, kind, checkpoint, count):
        with tempfile.TemporaryDirectory() as folder:
            gguf = os.path.join(folder, "model.gguf")
            subprocess.run([PROGRAM, "export", checkpoint, "--format", "gguf", "--out", gguf],
                           check=True)
            with kvphase_server(PROGRAM, checkpoint, "--max-logprobs", "-1") as url:
                model = post_free(url + "/v1/models")["data"][0]
                vocabulary = len(post(url + "/v1/completions", {
                    "prompt": [0], "max_tokens": 1, "logprobs": -1,
                    "return_tokens_as_token_ids": True,
                })["choices"][0]["logprobs"]["top_logprobs"][0])
                prompts = random_prompts(vocabulary, model["max_model_len"] - 1, count)
                mine = ours(url, prompts, vocabulary)
                words = post(url + "/detokenize", {"tokens": prompts[0]})["prompt"]
            server = start(gguf, 256)
            other = theirs(server.listening_address, prompts, vocabulary)
            ids = post(server.listening_address + "/tokenize", {"content": words})["tokens"]
        self.assertEqual(ids, prompts[0], "names as text become their ids")
        worst, equal = (0.0, None), 0
        for prompt, a, b in zip(prompts, mine, other):
            self.assertEqual(sorted(a), sorted(b), "both name the whole vocabulary")
            gap, token = max((abs(a[token] - b[token]), token) for token in a)
            if gap > worst[0]:
                worst = gap, f"token {token} behind {len(prompt)} tokens: {a[token]} and {b[token]}"
            equal += max(a, key=a.get) == max(b, key=b.get)
        print(f"{kind}: {count} prompts x {vocabulary} tokens, largest gap {worst[0]:.2e} nats "
              f"({worst[1]}), top-1 equal {equal}/{count}")
        self.assertLessEqual(worst[0], TOLERANCE)
        self.assertGreaterEqual(equal / count, TOP_1)

    def test_tied_and_scaled(self):
        self.compare_random("tied", 1000)

    def test_grouped_heads_and_a_head_of_its_own(self):
        self.compare_random("untied", 1000)

    def test_the_trained_control(self):
        self.compare("full-attention", os.path.join(MODELS, "full-attention"), 1000)


    def test_audit_and_compare_the_trained_control(self):
        """`kvphase audit` of a real engine finds no period, and no difference to our own server."""
        checkpoint = os.path.join(MODELS, "full-attention")
        with tempfile.TemporaryDirectory() as folder:
            gguf = os.path.join(folder, "model.gguf")
            subprocess.run([PROGRAM, "export", checkpoint, "--format", "gguf", "--out", gguf],
                           check=True)
            server = start(gguf, 256)
            task = ["--language", checkpoint, "--modulus", "16", "--items", "32"]
            audit = subprocess.run(
                [PROGRAM, "audit", server.listening_address, *task, "--json",
                 "--out", os.path.join(folder, "audit")], stdout=subprocess.PIPE, text=True)
            self.assertEqual(audit.returncode, 0)
            result = json.loads(audit.stdout)
            with kvphase_server(PROGRAM, checkpoint) as url:
                compare = subprocess.run(
                    [PROGRAM, "compare", url, server.listening_address, "--task", "lookup", *task,
                     "--json", "--require-same", "--out", os.path.join(folder, "compare")],
                    stdout=subprocess.PIPE, text=True)
        self.assertEqual(compare.returncode, 0)
        comparison = json.loads(compare.stdout)[0]
        print(result["verdict"]["sentence"])
        print(comparison["sentence"], "mean total variation",
              comparison["all"]["total_variation"])
        self.assertEqual(result["verdict"]["kind"], "no_period")
        self.assertEqual(result["design"]["missing"], 0)
        self.assertGreater(result["mean"]["value"], 0.99)
        self.assertEqual(comparison["kind"], "none")
        self.assertEqual(comparison["all"]["n"], 512)
        self.assertLess(comparison["all"]["total_variation"], 1e-3)


def post_free(url):
    import urllib.request
    with urllib.request.urlopen(url, timeout=20) as reply:
        return json.load(reply)


if __name__ == "__main__":
    PROGRAM, CHECKPOINT_TOOL, MODELS = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main(verbosity=2)
