# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Services that tell what has changed: a second crawl costs that and no more."""

import time
from pathlib import Path

from tests.needs import requires
from tests.uplink.gateway.servers import PropagatingWsgiDav, Radicale
from tests.uplink.gateway.site import Site, describe, site
from tests.uplink.gateway.test_crawls import RCLONE, plant

pytestmark = requires("rclone", "curl")


def crawl(cloud: Site) -> list[str]:
    """What rclone lists, when nothing that uplink keeps of lists is fresh."""
    time.sleep(0.5)
    return sorted(cloud.run(*RCLONE).stdout.splitlines())


def asked(cloud: Site) -> int:
    return sum(len(cloud.server.requests(method)) for method in ("PROPFIND", "REPORT"))


@requires("radicale")
def test_radicale_tells_by_sync_collection(short_path: Path) -> None:
    describe(short_path)
    with site(short_path, Radicale) as cloud:
        server = cloud.server
        assert isinstance(server, Radicale)
        names = []
        for number in range(6):
            server.make_book(f"book{number}")
            names.append(f"book{number}/")
            for card in range(5):
                server.write(f"book{number}/card{card}.vcf", f"Ada {card}")
                names.append(f"book{number}/card{card}.vcf")
        assert crawl(cloud) == sorted(names)
        assert crawl(cloud) == sorted(names)
        before = asked(cloud)
        assert crawl(cloud) == sorted(names)
        assert asked(cloud) == before + 1  # for the tokens of all six
        server.write("book2/new.vcf", "Grace")
        server.delete("book4/card1.vcf")
        names = [n for n in names if n != "book4/card1.vcf"] + ["book2/new.vcf"]
        before, reports = asked(cloud), len(cloud.server.requests("REPORT"))
        assert crawl(cloud) == sorted(names)
        assert asked(cloud) == before + 3
        assert len(cloud.server.requests("REPORT")) == reports + 2
        server.delete("book0")
        server.make_book("another")
        names = [n for n in names if not n.startswith("book0")] + ["another/"]
        assert crawl(cloud) == sorted(names)


def test_folders_whose_etags_propagate_are_asked_for_only_where_they_changed(
    short_path: Path,
) -> None:
    describe(short_path, "nextcloud")
    short_path.chmod(0o755)
    with site(short_path, PropagatingWsgiDav, service='description = "nextcloud"') as cloud:
        names = plant(cloud)
        assert crawl(cloud) == names
        before = asked(cloud)
        assert crawl(cloud) == names
        assert asked(cloud) == before + 1
        (cloud.server.files / "b &" / "x" / "new").write_bytes(b"new")
        before = asked(cloud)
        assert crawl(cloud) == sorted([*names, "b &/x/new"])
        assert asked(cloud) == before + 4  # the root's etag, the root, and the two on the way
        (cloud.server.files / "b &" / "x" / "new").unlink()
        assert crawl(cloud) == names
