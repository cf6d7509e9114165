# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Keys of sealed media as a home makes them, and as a client of that home verifies them."""

from functools import partial
from pathlib import Path

from client.platform.settings import OWNER
from homeserver import HomeSettings
from homeserver.home import media_signing, signers_line
from media import MEDIA_KEY_NAMESPACE, NewSeal, SealKeys, new_seal
from wire import Identity, verify_signer


def sealed_for(home: HomeSettings, *public_keys: str) -> NewSeal:
    """What `satchel-home media init --for` makes."""
    return new_seal(public_keys, sign=media_signing(Identity.open(home.identity)))


def keys_of_client(folder: Path, identity: Path, home: HomeSettings) -> SealKeys:
    """Of a client with that private key, which is paired with the home. folder: of kept keys"""
    folder.mkdir(parents=True, exist_ok=True)
    signers = folder.parent / f"{folder.name} signers"
    signers.write_text(signers_line(home) + "\n")
    verify = partial(
        verify_signer, allowed_signers=signers, signer=OWNER, namespace=MEDIA_KEY_NAMESPACE
    )
    return SealKeys(folder, (identity,), verify)
