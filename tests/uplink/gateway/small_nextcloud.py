# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A small server of the tests' own that answers what Nextcloud's desktop client asks: no registry
has a Nextcloud server. It serves a folder of this machine to one user, for tests and nobody else.

    python -m tests.uplink.gateway.small_nextcloud FOLDER PORT USER PASSWORD

It has what the client cannot do without: status.php, capabilities, the user, lists whose folders'
etags change with all below them, file ids, uploads with a time, and conditions. It has no chunked
uploads, no shares, no versions.
"""

import base64
import hashlib
import json
import os
import shutil
import sys
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

DAV = "/remote.php/dav/files/"
OWNCLOUD = "http://owncloud.org/ns"
STATUS = {
    "installed": True,
    "maintenance": False,
    "needsDbUpgrade": False,
    "version": "25.0.4.1",
    "versionstring": "25.0.4",
    "edition": "",
    "productname": "A small server of the tests' own",
    "extendedSupport": False,
}
CAPABILITIES = {
    "version": {"major": 25, "minor": 0, "micro": 4, "string": "25.0.4", "edition": ""},
    "capabilities": {
        "core": {"pollinterval": 60, "webdav-root": "remote.php/webdav"},
        "dav": {},
        "files": {"bigfilechunking": False, "undelete": False, "versioning": False},
        "files_sharing": {"api_enabled": False},
    },
}


def etag_of(path: Path) -> str:
    """Of a folder: another when anything below it has changed."""
    digest = hashlib.sha256()
    found = [path]
    if path.is_dir():
        found += sorted(path.rglob("*"))
    for each in found:
        stat = each.stat()
        told = (stat.st_ino, stat.st_mtime_ns, stat.st_size) if each.is_file() else (stat.st_ino,)
        digest.update(f"{each} {told}\n".encode())
    return digest.hexdigest()[:32]


class SmallNextcloud(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path
    user: str
    authorization: str
    guard = threading.Lock()

    def handle_one_request(self) -> None:
        """Any method, one request at a time."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        with self.guard:
            self._answer()
        self.wfile.flush()

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        base = DAV + self.user
        if path == "/status.php":
            self._say_json(STATUS)
        elif self.headers.get("Authorization") != self.authorization:
            self._say(401, {"WWW-Authenticate": 'Basic realm="files"'})
        elif path.startswith("/ocs/"):
            self._ocs(path)
        elif path == base or path.startswith(base + "/"):
            self._dav(unquote(path.removeprefix(base)).strip("/"), content)
        else:
            self._say(404)

    def _ocs(self, path: str) -> None:
        if path.endswith("/cloud/capabilities"):
            data: object = CAPABILITIES
        elif path.endswith("/cloud/user"):
            data = {"id": self.user, "display-name": self.user, "email": ""}
        else:
            self._say(404)
            return
        meta = {"status": "ok", "statuscode": 100 if "/v1.php" in path else 200, "message": "OK"}
        self._say_json({"ocs": {"meta": meta, "data": data}})

    def _dav(self, name: str, content: bytes) -> None:
        place = self.root / name
        if self.root not in (place.resolve(), *place.resolve().parents):
            self._say(403)
            return
        act = getattr(self, f"_on_{self.command.lower()}", None)
        if act is None:
            self._say(405)
        elif self.command in ("PUT", "MKCOL"):
            self._say(409) if not place.parent.is_dir() else act(place, content)
        elif not place.exists():
            self._say(404)
        else:
            act(place, content)

    def _on_propfind(self, place: Path, _: bytes) -> None:
        found = [place]
        if place.is_dir() and self.headers.get("Depth", "infinity") == "1":
            found += sorted(place.iterdir())
        elif self.headers.get("Depth") not in ("0", "1"):
            self._say(403)
            return
        told = "".join(self._response(each) for each in found)
        names = f'xmlns:d="DAV:" xmlns:oc="{OWNCLOUD}"'
        body = f'<?xml version="1.0"?><d:multistatus {names}>{told}</d:multistatus>'
        self._say(207, {"Content-Type": "application/xml; charset=utf-8"}, body.encode())

    def _response(self, place: Path) -> str:
        folder, stat = place.is_dir(), place.stat()
        href = quote(f"{DAV}{self.user}/{place.relative_to(self.root)}".removesuffix("/."))
        size = sum(p.stat().st_size for p in place.rglob("*")) if folder else stat.st_size
        own = "" if folder else f"<d:getcontentlength>{size}</d:getcontentlength>"
        kind = "<d:collection/>" if folder else ""
        return (
            f"<d:response><d:href>{href}{'/' if folder else ''}</d:href><d:propstat><d:prop>"
            f"<d:resourcetype>{kind}</d:resourcetype>{own}"
            f"<d:getlastmodified>{formatdate(stat.st_mtime, usegmt=True)}</d:getlastmodified>"
            f"<d:getetag>&quot;{etag_of(place)}&quot;</d:getetag><oc:size>{size}</oc:size>"
            f"<oc:id>{self._id(place)}</oc:id><oc:fileid>{stat.st_ino}</oc:fileid>"
            f"<oc:permissions>{'RGDNVCK' if folder else 'RGDNVW'}</oc:permissions>"
            "</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
        )

    def _on_get(self, place: Path, _: bytes) -> None:
        if place.is_dir():
            self._say(405)
            return
        headers = self._about(place)
        if self.headers.get("If-None-Match") == headers["ETag"]:
            self._say(304, headers)
        else:
            self._say(200, headers, place.read_bytes())

    def _on_put(self, place: Path, content: bytes) -> None:
        there, wanted = place.exists(), self.headers.get("If-Match")
        known = f'"{etag_of(place)}"' if there else None
        none = self.headers.get("If-None-Match")
        if (wanted is not None and wanted != known) or (none == "*" and there):
            self._say(412)
            return
        temporary = self.root.parent / f"part-{os.getpid()}"
        temporary.write_bytes(content)
        headers = {}
        if moment := self.headers.get("X-OC-Mtime"):
            os.utime(temporary, (int(moment), int(moment)))
            headers["X-OC-MTime"] = "accepted"
        temporary.replace(place)
        self._say(204 if there else 201, headers | self._about(place))

    def _on_mkcol(self, place: Path, _: bytes) -> None:
        if place.exists():
            self._say(405)
            return
        place.mkdir()
        self._say(201, {"OC-FileId": self._id(place)})

    def _on_delete(self, place: Path, _: bytes) -> None:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()
        self._say(204)

    def _on_move(self, place: Path, _: bytes) -> None:
        path = unquote(urlsplit(self.headers["Destination"]).path)
        target = self.root / path.removeprefix(DAV + self.user).strip("/")
        there = target.exists()
        place.rename(target)
        self._say(204 if there else 201, self._about(target))

    def _id(self, place: Path) -> str:
        return f"{place.stat().st_ino:08d}ocsmall"

    def _about(self, place: Path) -> dict[str, str]:
        etag = f'"{etag_of(place)}"'
        modified = formatdate(place.stat().st_mtime, usegmt=True)
        about = {"ETag": etag, "OC-ETag": etag, "OC-FileId": self._id(place)}
        return about | {"Last-Modified": modified}

    def _say_json(self, said: object) -> None:
        self._say(200, {"Content-Type": "application/json"}, json.dumps(said).encode())

    def _say(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main(folder: str, port: str, user: str, password: str) -> None:
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    fields = {"root": Path(folder).resolve(), "user": user, "authorization": f"Basic {token}"}
    handler = type("Handler", (SmallNextcloud,), fields)
    ThreadingHTTPServer(("127.0.0.1", int(port)), handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
