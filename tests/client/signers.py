# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Public keys of surrogates that nobody has the private ones of."""

KEYS = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJkoesojbvgv0+cbG/C0QrIRAR24YzJcWVASSu5GeZci",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH2l0Nqh7VKs4CYu+rnsze5M0DwvINYY3ptnCVgtNGAy",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHv0V7AXdXNHIRjzHNboAROzQT0lLqYXsSDuGdGm1ngH",
)
