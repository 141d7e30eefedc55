"""A llama.cpp server for long contexts, as it would be deployed: flash attention, half-precision
cache, prompt cache on. Prints its URL and serves until its standard input ends.

Usage: long_context_server.py MODEL.gguf CONTEXT
"""

import sys

import xllamacpp


def start(path, context):
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = context
    params.n_parallel = 1
    params.warmup = False
    params.n_batch = 4096
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    return xllamacpp.Server(params)


if __name__ == "__main__":
    server = start(sys.argv[1], int(sys.argv[2]))
    print(server.listening_address, flush=True)
    sys.stdin.read()
