# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Images of containers that tests make with umoci and skopeo, of BusyBox and without a registry."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

CAPABILITY = b"\x01\0\0\x02\0\x04" + bytes(14)
"""cap_net_bind_service=ep, as the kernel keeps it."""

APPLETS = ("sh", "httpd", "cat", "ls", "mkdir", "sleep", "date", "grep", "kill", "tr")


def run(*argv: str | Path) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def busybox() -> bytes:
    program = shutil.which("busybox")
    assert program
    return Path(program).read_bytes()


class LayerTar:
    """A layer that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def file(
        self, name: str, content: bytes, mode: int = 0o644, capability: bytes = b"", uid: int = 0
    ) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(content), mode, 1_600_000_000
        info.uid = info.gid = uid
        if capability:
            value = capability.decode("utf-8", "surrogateescape")
            info.pax_headers = {"SCHILY.xattr.security.capability": value}
        self._tar.addfile(info, io.BytesIO(content))

    def link(self, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode = kind, target, 0o777
        self._tar.addfile(info)

    def add(self, info: tarfile.TarInfo, content: io.BytesIO) -> None:
        self._tar.addfile(info, content)

    def folder(self, name: str, uid: int = 0, mode: int = 0o755) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, uid, uid
        self._tar.addfile(info)

    def device(self, name: str) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.devmajor, info.devminor = tarfile.BLKTYPE, 8, 0
        self._tar.addfile(info)

    def close(self) -> Path:
        self._tar.close()
        return self.path


def base_layer(path: Path, content: bytes = b"hello\n") -> Path:
    """BusyBox with a web server's page, an account, a hard link and a capability."""
    layer = LayerTar(path)
    layer.file("bin/busybox", busybox(), 0o755)
    for applet in APPLETS:
        layer.link(f"bin/{applet}", "busybox")
    layer.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nweb:x:1234:4321::/srv:/bin/sh\n")
    layer.file("etc/group", b"root:x:0:\nweb:x:4321:\nothers:x:77:\n")
    layer.file("srv/index.html", content)
    layer.link("srv/same.html", "srv/index.html", tarfile.LNKTYPE)
    layer.file("srv/old.html", b"old\n")
    layer.file("bin/bound", busybox(), 0o755, CAPABILITY)
    return layer.close()


def upper_layer(path: Path) -> Path:
    layer = LayerTar(path)
    layer.file("srv/.wh.old.html", b"")
    layer.file("srv/new.html", b"new\n")
    return layer.close()


WEB = (
    *("--config.entrypoint", "/bin/httpd", "--config.cmd", "-f", "--config.cmd", "-p"),
    *("--config.cmd", "127.0.0.1:8000", "--config.cmd", "-h", "--config.cmd", "/srv"),
    *("--config.user", "web:others", "--config.env", "WORD=two words"),
    *("--config.exposedports", "8000/tcp", "--config.exposedports", "53/udp"),
    *("--config.volume", "/var/lib/web", "--config.workingdir", "/srv"),
)
"""Arguments of `umoci config` for a web server."""


def oci_image(folder: Path, layers: Iterable[Path], config: Sequence[str] = WEB) -> str:
    """A reference to a new image in an OCI layout at `folder`, which is not there."""
    image = f"{folder}:app"
    run("umoci", "init", "--layout", folder)
    run("umoci", "new", "--image", image)
    for layer in layers:
        run("umoci", "raw", "add-layer", "--image", image, layer)
    run("umoci", "config", "--image", image, *config)
    return f"oci:{image}"


def plain_image(folder: Path, config: dict[str, Any], layers: Iterable[Path]) -> str:
    """A reference to a new image whose configuration is just that, whatever tools say of it."""
    folder.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, Any]:
        name = hashlib.sha256(data).hexdigest()
        (folder / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    kinds = "application/vnd.oci.image."
    made = [{**blob(path.read_bytes()), "mediaType": f"{kinds}layer.v1.tar"} for path in layers]
    rootfs = {"type": "layers", "diff_ids": [layer["digest"] for layer in made]}
    image = {"os": "linux", "architecture": "amd64", "config": config, "rootfs": rootfs}
    described = {**blob(json.dumps(image).encode()), "mediaType": f"{kinds}config.v1+json"}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kinds}manifest.v1+json",
        "config": described,
        "layers": made,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "version").write_text("Directory Transport Version: 1.1\n")
    return f"dir:{folder}"


def web_image(folder: Path) -> str:
    """A reference to an image of two layers, a small web server."""
    folder.mkdir(parents=True, exist_ok=True)
    layers = [base_layer(folder / "base.tar"), upper_layer(folder / "upper.tar")]
    return oci_image(folder / "oci", layers)
