# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel evidence`: what is kept of surrogates that answered otherwise than home."""

from __future__ import annotations

from pathlib import Path

import click

from client.session.proof import Proof, ProofInvalid
from console import json_option, show
from wire import fingerprint


@click.group("evidence")
def command() -> None:
    """List the evidence against surrogates."""


@command.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--home-key", metavar="SHA256:...", help="The fingerprint of home's key.")
@click.option(
    "--surrogate-key", metavar="SHA256:...", help="The fingerprint of the surrogate's key."
)
@json_option
def verify(file: Path, home_key: str | None, surrogate_key: str | None, as_json: bool) -> None:
    """Verify that a surrogate and home signed different answers.

    FILE is a `proof.json`, or the folder of a case that has one. It needs no session, no settings
    and no secret key. Without --home-key and --surrogate-key it prints the keys that have signed,
    and you compare them with the keys that you know. Exits with 6 if FILE does not prove that both
    have signed different answers to the same operation.
    """
    proof = Proof.read(file)
    proof.verify()
    keys = (fingerprint(proof.home_says.key), fingerprint(proof.surrogate_says.key))
    for who, wanted, key in zip(
        ("home", "the surrogate"), (home_key, surrogate_key), keys, strict=True
    ):
        if wanted not in (None, key):
            raise ProofInvalid(f"{who} did not sign this", why=f"{key} did, not {wanted}")
    show(
        {
            "service": proof.service,
            "operation": proof.operation,
            "surrogate": proof.surrogate,
            "surrogate_key": keys[1],
            "home_key": keys[0],
            "surrogate_answered": proof.surrogate_says.answered,
            "home_answered": proof.home_says.answered,
        },
        as_json=as_json,
    )
