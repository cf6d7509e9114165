# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A CalDAV client of its own process: python-caldav as Debian has it, run by Debian's Python.

calendar_client.py PORT make              a calendar
calendar_client.py PORT add DAY TITLE     an event on that day of March 2026
calendar_client.py PORT list              the titles of all events, sorted, a line each
"""

import sys
from datetime import datetime

import caldav  # type: ignore[import-not-found,import-untyped,unused-ignore]


def main(port: str, action: str, *words: str) -> None:
    own = f"http://127.0.0.1:{port}/me/"
    client = caldav.DAVClient(own)
    calendar = caldav.Calendar(client=client, url=f"{own}work/")
    if action == "make":
        client.mkcol(own, "")
        client.mkcalendar(calendar.url, "")
    elif action == "add":
        day = int(words[0])
        calendar.save_event(
            dtstart=datetime(2026, 3, day, 9),
            dtend=datetime(2026, 3, day, 10),
            summary=words[1],
            uid=f"event-{words[1]}",
        )
    else:
        found = calendar.date_search(datetime(2026, 3, 1), datetime(2026, 4, 1))
        print(
            "\n".join(sorted(str(event.vobject_instance.vevent.summary.value) for event in found))
        )


main(*sys.argv[1:])
