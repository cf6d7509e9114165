# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""WsgiDAV's provider of files, with etags of folders that change with everything below them."""

import hashlib
import os
from pathlib import Path
from typing import Any

from wsgidav.fs_dav_provider import (  # type: ignore[import-untyped]
    FileResource,
    FilesystemProvider,
    FolderResource,
)


class PropagatingFolder(FolderResource):  # type: ignore[misc]
    def support_etag(self) -> bool:
        return True

    def get_etag(self) -> str:
        digest = hashlib.sha256()
        for folder, names, files in os.walk(self._file_path):
            names.sort()
            for name in sorted(files):
                found = (Path(folder) / name).stat()
                digest.update(f"{folder}/{name}/{found.st_mtime_ns}/{found.st_size}\n".encode())
            digest.update(f"{folder} {names}\n".encode())
        return digest.hexdigest()

    def get_member(self, name: str) -> Any:
        found = super().get_member(name)
        return self.provider.propagating(found, self.environ)


class PropagatingProvider(FilesystemProvider):  # type: ignore[misc]
    def get_resource_inst(self, path: str, environ: dict[str, Any]) -> Any:
        return self.propagating(super().get_resource_inst(path, environ), environ)

    def propagating(self, found: Any, environ: dict[str, Any]) -> Any:
        if found is None or isinstance(found, FileResource | PropagatingFolder):
            return found
        return PropagatingFolder(found.path, environ, found._file_path)
