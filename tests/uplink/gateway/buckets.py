# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""moto's S3 server, which looks at signatures, and uplink before it as the service `cloud`."""

import contextlib
import os
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.repository.tree import ROOT
from tests.uplink.gateway.named import SERVICE, NamedSite, make_authority
from tests.uplink.gateway.site import DavServer, Site

REGION = "us-east-1"
_WHERE = f"{ROOT}/.venv/moto/bin:{os.environ.get('PATH', '')}"
PROGRAM = shutil.which("moto_server", path=_WHERE)
_IAM = f"Credential=x/20260101/{REGION}/iam/aws4_request, SignedHeaders=host, Signature={'0' * 64}"
_ALL = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'


@dataclass
class Moto(DavServer):
    """key, secret: of the user whom it knows. looks: whether it looks at signatures"""

    key: str = ""
    secret: str = ""
    looks: bool = True

    @property
    def url(self) -> str:
        return f"http://{SERVICE}:{self.port}"

    def argv(self) -> list[str]:
        assert PROGRAM is not None
        free = "3" if self.looks else "inf"
        settings = [f"INITIAL_NO_AUTH_ACTION_COUNT={free}", "MOTO_IAM_LOAD_MANAGED_POLICIES=false"]
        settings += ["S3_IGNORE_SUBDOMAIN_BUCKETNAME=true"]  # the host's name is no bucket's
        return ["env", *settings, PROGRAM, "-H", "127.0.0.1", "-p", str(self.port)]

    def start(self) -> None:
        super().start()
        self._iam(Action="CreateUser", UserName="me")
        self._iam(Action="PutUserPolicy", UserName="me", PolicyName="all", PolicyDocument=_ALL)
        said = self._iam(Action="CreateAccessKey", UserName="me")
        for name, tag in (("key", "AccessKeyId"), ("secret", "SecretAccessKey")):
            found = re.search(rf"<{tag}>(.*?)</{tag}>", said)
            assert found, said
            setattr(self, name, found[1])

    def _iam(self, **fields: str) -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/",
            data=urllib.parse.urlencode({"Version": "2010-05-08", **fields}).encode(),
            headers={"Authorization": f"AWS4-HMAC-SHA256 {_IAM}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: str = answer.read().decode()
        return text


@contextlib.contextmanager
def bucket_site(
    folder: Path, *, waits: float = 0, secret: bool = False, looks: bool = True
) -> Iterator[NamedSite]:
    """All of it, running. waits: of the description; secret: whether uplink has the key's; looks:
    whether the server looks at signatures"""
    for name in ("files", "server", "descriptions"):
        (folder / name).mkdir()
    built_in = (ROOT / "uplink" / "policy" / "services" / "s3.toml").read_text()
    assert "waits = 45" in built_in
    (folder / "descriptions" / "s3.toml").write_text(
        built_in.replace("waits = 45", f"waits = {waits}")
    )
    server = Moto(folder / "files", folder / "server", looks=looks)
    made = NamedSite(server, folder, service='description = "s3"')
    make_authority(server.folder, made.system)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {SERVICE}\n")
    try:
        server.start()
        if secret:
            made.account = f"{server.key}:{server.secret}"
        made.start()
        yield made
    finally:
        made.stop()
        server.stop()


def server_of(cloud: Site) -> Moto:
    assert isinstance(cloud.server, Moto)
    return cloud.server
