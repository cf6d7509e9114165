# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The authority of one run of a program, and the store of certificates that the program trusts.

The authority can sign for the services of the settings and for nobody else (name constraints, RFC
5280, section 4.2.1.10). Its key is never written, and is forgotten as soon as it has signed one
certificate for each of these services; their key is in memory and goes with the run.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import ipaddress
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SYSTEM_STORE = Path("/etc/ssl/certs")
BUNDLE = "ca-certificates.crt"
VALID = (datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59))
"""From and until when certificates are valid: a clock may be wrong at a run's start. They end with
the run."""

VARIABLES = (
    *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"),
    *("AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT"),
)
"""By which programs are told of a bundle of certificates."""

_NAME = "satchel uplink run"
"""In lower case and single spaces, so that its DER is also OpenSSL's canonical form."""


class RunAuthority:
    """hosts: names or addresses, at least one. Any thread."""

    def __init__(self, hosts: Iterable[str]) -> None:
        found = sorted(set(hosts))
        key, leaf = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        names = [_general(host) for host in found]
        root = _builder(_NAME, _NAME, key.public_key())
        root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        root = root.add_extension(_usage(signs=True), critical=True)
        root = root.add_extension(_constraints(names), critical=True)
        authority = root.sign(key, hashes.SHA256())
        self.certificate = authority.public_bytes(serialization.Encoding.PEM)
        self.subject_hash = _subject_hash(authority)
        self._leaves = {
            host: _leaf(name, leaf, key) for host, name in zip(found, names, strict=True)
        }
        self._key = leaf.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def open_pem(self, host: str) -> int:
        """A file in memory, without a name, of a host's key and certificate; the caller's."""
        descriptor = os.memfd_create("satchel-uplink", os.MFD_CLOEXEC)
        os.write(descriptor, self._key + self._leaves[host])
        return descriptor

    def make_store(self, folder: Path, system: Path = SYSTEM_STORE) -> None:
        """In the folder, which is made: what the system trusts, and this authority. Nothing of the
        system's is changed. Raises OSError."""
        folder.mkdir()
        for path in system.iterdir() if system.is_dir() else []:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                shutil.copyfile(path, folder / path.name)
        number = 0
        while (folder / f"{self.subject_hash}.{number}").exists():
            number += 1
        (folder / f"{self.subject_hash}.{number}").write_bytes(self.certificate)
        with (folder / BUNDLE).open("ab") as bundle:
            bundle.write(b"\n" + self.certificate)
        folder.chmod(0o755)
        for path in folder.iterdir():
            path.chmod(0o644)


def _builder(
    subject: str, issuer: str, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_named(subject))
        .issuer_name(_named(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(VALID[0])
        .not_valid_after(VALID[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _leaf(
    name: x509.GeneralName,
    leaf: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
) -> bytes:
    made = _builder("service", _NAME, leaf.public_key())
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(signs=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    made = made.add_extension(x509.SubjectAlternativeName([name]), critical=False)
    made = made.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
    )
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _constraints(names: list[x509.GeneralName]) -> x509.NameConstraints:
    """These, and of the kinds that are not among them nothing: what a constraint does not speak of
    it allows."""
    permitted: list[x509.GeneralName] = []
    for name in names:
        if isinstance(name, x509.IPAddress):
            permitted.append(x509.IPAddress(ipaddress.ip_network(str(name.value))))
        else:
            permitted.append(name)
    if all(isinstance(name, x509.IPAddress) for name in names):
        permitted.append(x509.DNSName("nobody.invalid"))
    if any(isinstance(name, x509.IPAddress) for name in names):
        return x509.NameConstraints(permitted, None)
    nowhere = [x509.IPAddress(ipaddress.ip_network(every)) for every in ("0.0.0.0/0", "::/0")]
    return x509.NameConstraints(permitted, nowhere)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=False,
        content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _subject_hash(certificate: x509.Certificate) -> str:
    """The name that OpenSSL looks for in a folder of certificates: of the canonical subject, which
    here is the subject's DER without the header of the outer sequence, two bytes long."""
    digest = hashlib.sha1(certificate.subject.public_bytes()[2:]).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"
