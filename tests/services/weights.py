# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A language model that knows nothing, as a GGUF file: chance's weights, and 512 words.

Which word it says next follows from its weights, so the same prompt gives the same words. The
format is version 3 of GGUF, as its specification in ggml has it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

CONTEXT = 16384
_WIDTH, _HEADS, _INNER = 32, 2, 64
_ALIGNED = 32
_WORDS = 512

_U32, _F32, _STRING, _ARRAY, _I32 = 4, 6, 8, 9, 5
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6

_TOKENS = [
    ("<unk>", _UNKNOWN),
    ("<s>", _CONTROL),
    ("</s>", _CONTROL),
    *((f"<0x{byte:02X}>", _BYTE) for byte in range(256)),
    *((f"\u2581w{number}", _NORMAL) for number in range(_WORDS)),
]


def model() -> bytes:
    """The file."""
    said = list(_metadata())
    tensors = list(_tensors())
    infos, data = b"", b""
    for name, shape, values in tensors:
        infos += _text(name) + struct.pack(f"<I{len(shape)}QI", len(shape), *shape, 0)
        infos += struct.pack("<Q", len(data))
        data += _padded(struct.pack(f"<{len(values)}f", *values))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(said)) + b"".join(said) + infos
    return _padded(head) + data


def _metadata() -> Iterable[bytes]:
    yield _said("general.architecture", _STRING, _text("llama"))
    for key, number in (
        ("context_length", CONTEXT),
        ("embedding_length", _WIDTH),
        ("block_count", 1),
        ("feed_forward_length", _INNER),
        ("attention.head_count", _HEADS),
        ("rope.dimension_count", _WIDTH // _HEADS),
        ("vocab_size", len(_TOKENS)),
    ):
        yield _said(f"llama.{key}", _U32, struct.pack("<I", number))
    yield _said("llama.attention.layer_norm_rms_epsilon", _F32, struct.pack("<f", 1e-5))
    yield _said("tokenizer.ggml.model", _STRING, _text("llama"))
    texts = [_text(token) for token, _ in _TOKENS]
    yield _said("tokenizer.ggml.tokens", _ARRAY, _array(_STRING, texts))
    scores = [struct.pack("<f", -float(number)) for number in range(len(_TOKENS))]
    yield _said("tokenizer.ggml.scores", _ARRAY, _array(_F32, scores))
    kinds = [struct.pack("<i", kind) for _, kind in _TOKENS]
    yield _said("tokenizer.ggml.token_type", _ARRAY, _array(_I32, kinds))
    for key, token in (("bos", 1), ("eos", 2), ("unknown", 0)):
        yield _said(f"tokenizer.ggml.{key}_token_id", _U32, struct.pack("<I", token))


def _tensors() -> Iterable[tuple[str, tuple[int, ...], list[float]]]:
    luck = random.Random(27)

    def drawn(count: int) -> list[float]:
        return [luck.gauss(0, 0.5) for _ in range(count)]

    square = (_WIDTH, _WIDTH)
    yield "token_embd.weight", (_WIDTH, len(_TOKENS)), drawn(_WIDTH * len(_TOKENS))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        yield f"blk.0.{name}.weight", square, drawn(_WIDTH * _WIDTH)
    for name in ("ffn_gate", "ffn_up"):
        yield f"blk.0.{name}.weight", (_WIDTH, _INNER), drawn(_WIDTH * _INNER)
    yield "blk.0.ffn_down.weight", (_INNER, _WIDTH), drawn(_WIDTH * _INNER)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        yield f"{name}.weight", (_WIDTH,), [1.0] * _WIDTH
    # It says words: what is none is as likely as the average word, and never the likeliest.
    silent = [0.0] * (_WIDTH * (len(_TOKENS) - _WORDS))
    yield "output.weight", (_WIDTH, len(_TOKENS)), silent + drawn(_WIDTH * _WORDS)


def _said(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def _array(kind: int, values: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNED)
