# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Images made like well-known ones, of BusyBox, each with an oddity and a check for the guest."""

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.images.oci import LayerTar, busybox, plain_image

APPLETS = (
    *("sh", "httpd", "cat", "ls", "mkdir", "sleep", "grep", "pidof", "stat", "id", "test", "echo"),
    *("tr", "touch", "env", "readlink", "wc"),
)
ACCOUNTS = b"root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n"
GROUPS = b"root:x:0:\napp:x:1000:\nlogs:x:77:\n"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\\n+/=\n-----END CERTIFICATE-----\n"


@dataclass
class KnownImage:
    """An image. fill: adds files to its layer. check: a shell script of the guest's root, which
    finds the service's process in $p and must succeed."""

    config: dict[str, Any]
    check: str
    fill: Callable[[LayerTar], None] = lambda layer: None
    accounts: str = "etc/passwd"
    shell: bool = True
    port: int = 8000

    def make(self, folder: Path) -> str:
        """A reference to it."""
        folder.mkdir()
        layer = LayerTar(folder / "layer.tar")
        layer.file("bin/httpd", busybox(), 0o755)
        if self.shell:
            layer.file("bin/busybox", busybox(), 0o755)
            for applet in set(APPLETS) - {"httpd"}:
                layer.link(f"bin/{applet}", "/bin/busybox")
        if self.accounts:
            layer.file(self.accounts, ACCOUNTS)
            layer.file("etc/group", GROUPS)
        layer.file("srv/index.html", b"served\n")
        self.fill(layer)
        served = ["/bin/httpd", "-f", "-p", f"127.0.0.1:{self.port}"]
        ports: dict[str, Any] = {f"{self.port}/tcp": {}}
        config = {"Entrypoint": served, "ExposedPorts": ports, **self.config}
        return plain_image(folder / "image", config, [layer.close()])


def said(text: str) -> str:
    """Return a check that the service has a variable."""
    return f"tr '\\0' '\\n' </proc/$p/environ | grep -qxF -e '{text}'"


def logging(user: str, log: str = "/var/log/app.log") -> dict[str, Any]:
    """A server that writes its log by its name, which leads to /dev/stdout."""
    script = f"echo begun >>{log} && exec httpd -f -p 127.0.0.1:8000"
    return {"Entrypoint": ["/bin/sh", "-c", script], "User": user}


def web(layer: LayerTar) -> None:
    layer.link("var/log/nginx/access.log", "/dev/stdout")
    layer.link("var/log/nginx/error.log", "/dev/stderr")


def database(layer: LayerTar) -> None:
    layer.link("var/run", "/run")
    layer.folder("run/mysqld", 1000, 0o770)
    layer.folder("run/lock", 0, 0o1777)


def node(layer: LayerTar) -> None:
    layer.link("var/log/app.log", "/dev/stdout")
    layer.folder("home/app", 1000)


def store(layer: LayerTar) -> None:
    layer.file("nix/store/a-etc/passwd", ACCOUNTS)
    layer.link("etc/passwd", "/nix/store/a-etc/passwd")
    layer.file("etc/group", GROUPS)


def linked(layer: LayerTar) -> None:
    layer.folder("mnt/volume")
    layer.link("data", "mnt/volume")
    layer.link("var/lock", "../run/lock")


def names(layer: LayerTar) -> None:
    for name in ('a "quoted" name', "two\nlines", "Icon\r", "a:b c", "back\\slash"):
        layer.file(f"srv/{name}", name.encode())


def hard(layer: LayerTar) -> None:
    layer.folder("tmp", 0, 0o1777)
    layer.file("tmp/built/tool", b"tool\n", 0o755)
    layer.link("opt/tool", "/tmp/built/tool", tarfile.LNKTYPE)
    layer.link("opt/same", "/opt/tool", tarfile.LNKTYPE)
    layer.folder("tmp/.dotnet/lockfiles", 1000, 0o777)


def lastlog(layer: LayerTar) -> None:
    info = tarfile.TarInfo("var/log/lastlog")
    size = 40 << 30
    named = {"size": str(size), "numblocks": "1", "map": f"{size - 512},512"}
    info.pax_headers = {f"GNU.sparse.{key}": value for key, value in named.items()}
    info.size = 512
    layer.add(info, io.BytesIO(b"user" * 128))


def uid(layer: LayerTar) -> None:
    layer.folder("data", 4_000_000_000)


NODE = logging("app")
LOGGED = "grep -q 1000 /proc/$p/status"
LINES = 'for a in it\\\'s 2; do\n  touch "/srv/$a"\ndone\nexec httpd -f -p 127.0.0.1:8000'

KNOWN: dict[str, KnownImage] = {
    "web-server": KnownImage(
        {"Env": [f"TLS_KEY={PEM}", "NGINX_VERSION=1.27"], "ExposedPorts": {"80-81/tcp": {}}},
        "tr '\\0' '\\n' </proc/$p/environ | grep -q '^-----END CERT' && "
        "echo x >>/var/log/nginx/access.log",
        web,
        port=80,
    ),
    "search-server": KnownImage(
        {"Env": ["discovery.type=single-node", "ES_JAVA_OPTS=-Xms1g -Xmx1g"], "User": "1000:0"},
        f"{said('discovery.type=single-node')} && {said('ES_JAVA_OPTS=-Xms1g -Xmx1g')} && "
        "grep -q 'Max open files *65536' /proc/$p/limits",
    ),
    "mysql": KnownImage(
        {
            "ExposedPorts": {"3306/tcp": {}, "33060-33061/tcp": {}},
            "Volumes": {"/var/lib/mysql": {}},
        },
        "test $(stat -c %u:%a /run/mysqld) = 1000:770 && test -d /var/lib/mysql",
        database,
        port=3306,
    ),
    "postgres": KnownImage(
        {"User": "app", "Volumes": {"/var/run/mysqld/data": {}}, "WorkingDir": "/var/run/mysqld"},
        "test $(readlink /proc/$p/cwd) = /run/mysqld && test $(stat -c %u /run/mysqld/data) = 1000",
        database,
    ),
    "node-app": KnownImage(
        {**NODE, "WorkingDir": "/home/app", "Env": ["NODE_ENV=production"]}, LOGGED, node
    ),
    "distroless": KnownImage(
        {"User": "1000", "Env": ["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]},
        said("SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"),
        shell=False,
    ),
    "static-go": KnownImage({"User": "65532:65532"}, "true", shell=False, accounts=""),
    "package-store": KnownImage({"User": "app:logs"}, LOGGED, store, accounts=""),
    "redis": KnownImage(
        {"User": "app", "WorkingDir": "/data", "Volumes": {"/data": {}}},
        "test $(readlink /proc/$p/cwd) = /mnt/volume",
        linked,
    ),
    "mongo": KnownImage(
        {"Volumes": {"/data/my db:1": {}, "/data/configdb": {}}, "WorkingDir": "/data/my db:1"},
        'test "$(readlink /proc/$p/cwd)" = "/mnt/volume/my db:1"',
        linked,
    ),
    "rabbitmq": KnownImage(
        {"Env": ["RABBITMQ_X=$HOME `id` 'q' \\n", "management.load_definitions=/etc/x"]},
        said("management.load_definitions=/etc/x"),
    ),
    "apache-php": KnownImage(
        {"Volumes": {"/var/lock/apache2": {}}, "WorkingDir": "/var/www/html"},
        "test -d /run/lock/apache2 && test $(readlink /proc/$p/cwd) = /var/www/html",
        linked,
    ),
    "grafana": KnownImage(
        {"User": "472", "Env": ["GF_PATHS_DATA=/var/lib/grafana", "com.acme/x-y=z"]},
        said("com.acme/x-y=z"),
    ),
    "ci-server": KnownImage(
        {"User": "app", "Volumes": {"/var/jenkins_home": {}}},
        """test "$(cat '/srv/a "quoted" name')" = 'a "quoted" name' && """
        "set -- /srv/* && test $# = 6",
        names,
    ),
    "large-user": KnownImage(
        {"User": "4000000000:4000000000"},
        "test $(stat -c %s /var/log/lastlog) = 42949672960",
        lastlog,
    ),
    "object-store": KnownImage(
        {"Volumes": {"/data": {}}, "User": "4000000000"},
        "test $(stat -c %u /data) = 4000000000",
        uid,
    ),
    "python-app": KnownImage(
        {"Entrypoint": ["/bin/sh", "-c"], "Cmd": [LINES]}, "test -e /srv/it\\'s && test -e /srv/2"
    ),
    "dotnet": KnownImage(
        {"User": "app", "Env": ["ASPNETCORE_URLS=http://+:8080", "ASPNETCORE:Kestrel=x"]},
        "test $(stat -c %h /opt/tool) = 3 && test $(stat -c %a /tmp/.dotnet/lockfiles) = 777 && "
        + said("ASPNETCORE:Kestrel=x"),
        hard,
    ),
    "low-port": KnownImage({"User": "app"}, LOGGED, port=443),
    "relative": KnownImage(
        {"Entrypoint": ["httpd"], "Cmd": ["-f", "-p", "127.0.0.1:8000"], "WorkingDir": "srv"},
        "test $(readlink /proc/$p/cwd) = /srv",
    ),
}
"""Twenty, by name."""
