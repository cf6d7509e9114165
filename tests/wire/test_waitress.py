# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The inner classes of waitress that `wire.http` uses. They have no promised interface.

If one changes, this test fails: compare it with what `server.py` and `intake.py` use, and then put
the new digest here.
"""

import hashlib
import inspect
from collections.abc import Callable
from importlib.metadata import version

import pytest
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import BaseWSGIServer, TcpWSGIServer, UnixWSGIServer, create_server
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

READ = {
    BaseWSGIServer: "82ab2f37dc852df3",
    Error: "374c72f58aca777c",
    HTTPChannel: "aa3da44fa1741b69",
    HTTPRequestParser: "f2b09de756c11493",
    TcpWSGIServer: "b2cb32f191a17310",
    ThreadedTaskDispatcher: "541f30c57f083fdf",
    UnixWSGIServer: "2fc0aef4a2c2b3dc",
    create_server: "2e506b208edceac2",
    wasyncore.dispatcher: "4d74dc7e94b4be53",
    wasyncore.loop: "9c04aac11e1c336c",
    wasyncore.poll2: "f2ea2bd150ff2600",
}


@pytest.mark.parametrize("used", READ, ids=lambda used: used.__name__)
def test_an_inner_class_is_the_one_that_was_read(used: Callable[..., object]) -> None:
    digest = hashlib.sha256(inspect.getsource(used).encode()).hexdigest()[:16]
    assert digest == READ[used], f"waitress {version('waitress')} changed it"
