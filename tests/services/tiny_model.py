# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A language model of a few thousand random numbers, which babbles, as a file of GGUF 3: what
llama.cpp needs of a model of the kind `llama`, and no more."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence

WIDTH = 32
HEADS = 4
LAYERS = 1
INNER = 64
CONTEXT = 8192
WORDS = [f"\u2581{a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "ai")]
"""What it says: the sign before each is a space. Each is one token."""

_UNKNOWN, _CONTROL, _NORMAL, _BYTE = 2, 3, 1, 6
SPECIAL = [("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)]
BYTES = [(f"<0x{number:02X}>", _BYTE) for number in range(256)]
TOKENS = [*SPECIAL, *BYTES, *((word, _NORMAL) for word in WORDS)]

_ALIGNMENT = 32
_U32, _I32, _F32, _TEXT, _LIST = 4, 5, 6, 8, 9
_Field = tuple[int, object]


def _text(value: str) -> bytes:
    octets = value.encode()
    return struct.pack("<Q", len(octets)) + octets


def _packed(kind: int, value: object) -> bytes:
    if kind == _TEXT:
        return _text(str(value))
    return struct.pack({_U32: "<I", _I32: "<i", _F32: "<f"}[kind], value)


def _listed(kind: int, values: Sequence[object]) -> bytes:
    head = struct.pack("<IIQ", _LIST, kind, len(values))
    return head + b"".join(_packed(kind, value) for value in values)


def _facts() -> Iterator[bytes]:
    plain: dict[str, _Field] = {
        "general.architecture": (_TEXT, "llama"),
        "general.name": (_TEXT, "babble"),
        "llama.context_length": (_U32, CONTEXT),
        "llama.embedding_length": (_U32, WIDTH),
        "llama.block_count": (_U32, LAYERS),
        "llama.feed_forward_length": (_U32, INNER),
        "llama.attention.head_count": (_U32, HEADS),
        "llama.attention.head_count_kv": (_U32, HEADS),
        "llama.attention.layer_norm_rms_epsilon": (_F32, 1e-5),
        "llama.rope.dimension_count": (_U32, WIDTH // HEADS),
        "llama.vocab_size": (_U32, len(TOKENS)),
        "tokenizer.ggml.model": (_TEXT, "llama"),
        "tokenizer.ggml.unknown_token_id": (_U32, 0),
        "tokenizer.ggml.bos_token_id": (_U32, 1),
        "tokenizer.ggml.eos_token_id": (_U32, 2),
    }
    for key, (kind, value) in plain.items():
        yield _text(key) + struct.pack("<I", kind) + _packed(kind, value)
    yield _text("tokenizer.ggml.tokens") + _listed(_TEXT, [name for name, _ in TOKENS])
    yield _text("tokenizer.ggml.scores") + _listed(_F32, [-float(i) for i in range(len(TOKENS))])
    yield _text("tokenizer.ggml.token_type") + _listed(_I32, [kind for _, kind in TOKENS])


def _tensors(numbers: random.Random) -> Iterator[tuple[str, tuple[int, ...], list[float]]]:
    """Name, shape with the innermost first, numbers."""

    def drawn(*shape: int) -> tuple[tuple[int, ...], list[float]]:
        count = shape[0] * shape[1]
        return shape, [numbers.gauss(0, shape[0] ** -0.5) for _ in range(count)]

    ones = ((WIDTH,), [1.0] * WIDTH)
    yield "token_embd.weight", *drawn(WIDTH, len(TOKENS))
    yield "output_norm.weight", *ones
    # It says words alone: what is no word never is among the likeliest.
    shape, output = drawn(WIDTH, len(TOKENS))
    silent = WIDTH * (len(TOKENS) - len(WORDS))
    yield "output.weight", shape, [0.0] * silent + output[silent:]
    for layer in range(LAYERS):
        yield f"blk.{layer}.attn_norm.weight", *ones
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{part}.weight", *drawn(WIDTH, WIDTH)
        yield f"blk.{layer}.ffn_norm.weight", *ones
        yield f"blk.{layer}.ffn_gate.weight", *drawn(WIDTH, INNER)
        yield f"blk.{layer}.ffn_up.weight", *drawn(WIDTH, INNER)
        yield f"blk.{layer}.ffn_down.weight", *drawn(INNER, WIDTH)


def tiny_model(seed: int = 1) -> bytes:
    """The file."""
    facts = list(_facts())
    tensors = list(_tensors(random.Random(seed)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)) + b"".join(facts)
    data = b""
    for name, shape, values in tensors:
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += _text(name) + sizes + struct.pack("<IQ", 0, len(data))  # 0: numbers of 32 bits
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % _ALIGNMENT)
    return head + bytes(-len(head) % _ALIGNMENT) + data
