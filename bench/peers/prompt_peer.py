"""llama.cpp over one GGUF file: log-probabilities behind prompts, and the time of prefill and decoding.

Prints one JSON object. Float32 throughout: its flash attention would round to half precision.

Usage: prompt_peer.py MODEL.gguf PROMPTS.json --threads N --steps N --context N
"""

import argparse
import json
import os
import sys
import urllib.request
from importlib import metadata

import xllamacpp


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gguf")
    parser.add_argument("prompts", help="JSON list of lists of token ids")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="tokens to decode")
    parser.add_argument("--context", type=int, required=True)
    args = parser.parse_args()
    with open(args.prompts, encoding="utf-8") as file:
        prompts = json.load(file)

    params = xllamacpp.CommonParams()
    params.model.path = args.gguf
    params.n_ctx = args.context
    params.n_parallel = 1
    params.cache_prompt = False  # every prompt is read anew
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
    params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    # The library logs every request; stdout is for the result, stderr for what goes wrong here.
    result = os.dup(1)
    sys.stderr = os.fdopen(os.dup(2), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    server = xllamacpp.Server(params)
    url = server.listening_address + "/completion"

    def complete(prompt, tokens, **more):
        return post(url, {"prompt": prompt, "n_predict": tokens, "temperature": -1,
                          "ignore_eos": True, "cache_prompt": False, **more})

    entries = []
    for prompt in prompts:
        reply = complete(prompt, 1, n_probs=1 << 20)  # also warms up
        assert reply["tokens_evaluated"] == len(prompt), reply["tokens_evaluated"]
        top = reply["completion_probabilities"][0]["top_logprobs"]
        by_token = {entry["id"]: entry["logprob"] for entry in top}
        # The first of the tokens asked for comes of the prompt: its time is the prefill's.
        timings = complete(prompt, args.steps + 1)["timings"]
        assert timings["prompt_n"] == len(prompt), timings
        assert timings["predicted_n"] == args.steps + 1, timings
        entries.append({"log_probabilities": [by_token[token] for token in sorted(by_token)],
                        "prefill_seconds": timings["prompt_ms"] / 1000,
                        "token_seconds": timings["predicted_ms"] / 1000 / args.steps})
    text = json.dumps({"version": metadata.version("xllamacpp"), "prompts": entries})
    os.write(result, text.encode() + b"\n")
    os._exit(0)  # the server's threads do not end by themselves


if __name__ == "__main__":
    main()
