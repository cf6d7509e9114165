# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""AppArmor around domains of ours, with the rules of docs/libvirt.md.

Under Debian's kernel, because few machines that tests run on have AppArmor, and under its KVM: a
domain as an operator has it."""

import json
import sys
from pathlib import Path

import pytest

from testbed import debian_kernel
from tests.hypervisor.libvirtd import LIBVIRT
from tests.hypervisor.site import SPEC
from tests.needs import requires

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kvm,
    pytest.mark.timeout(2400),
    requires(*LIBVIRT, "aa-exec", "apparmor_parser", "mmdebstrap", "nbdkit", "nbdfuse"),
]


def test_a_domain_is_confined_by_its_label(checkpoint: Path, tmp_path: Path) -> None:
    checkpoint.chmod(0o755)
    program = [sys.executable, "-m", "tests.hypervisor.under_apparmor", str(checkpoint)]
    with (tmp_path / "said").open("wb") as said:
        status = debian_kernel.run(
            ["env", f"PYTHONPATH={Path.cwd()}", "SATCHEL_TEST_ACCELERATOR=kvm", *program],
            seconds=1700,
            output=said.fileno(),
            modules=("kvm_amd",),
            memory="4G",
            processors=1,
        )
    text = (tmp_path / "said").read_text(errors="replace")
    assert status == 0, text[-4000:]
    (line,) = [line for line in text.splitlines() if line.startswith("{")]
    found = json.loads(line)
    assert found["lacking"] == []
    assert found["without rules"]
    assert found["with rules"] == ""
    assert found["kvm"] is True
    assert found["label"].startswith("libvirt-")
    assert found["mode"] == "(enforce)"
    assert found["uid"] > 0x70000000
    assert int(found["memory"]) == (SPEC.memory_mib + 320) << 20
    assert found["count"] == "2"
    assert found["reads its kernel"] is True
    assert found["reads its own file elsewhere"] is False
    assert found["reads passwords"] is False
    assert found["saved"] > 100_000
