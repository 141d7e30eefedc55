"""A llama.cpp server over one GGUF file, in float32 and one request at a time.

As a program it prints its URL and serves until its standard input ends:
    llama_cpp_server.py MODEL.gguf CONTEXT
so that e.g. `kvphase audit URL` can be run against it.
"""

import sys

import xllamacpp


def start(path, context):
    """The running server; .listening_address is its URL."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = context
    params.n_parallel = 1       # several slots share batches, which moves the last bits
    params.cache_prompt = False  # a reused prefix moves them too
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # Its flash attention rounds to half precision on the CPU: 8e-3 to 2e-2 nats on these networks.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
    params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    return xllamacpp.Server(params)


if __name__ == "__main__":
    server = start(sys.argv[1], int(sys.argv[2]))
    print(server.listening_address, flush=True)
    sys.stdin.read()
