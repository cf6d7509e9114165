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

EVENT = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Satchel//a test//EN
BEGIN:VEVENT
UID:{title}
DTSTAMP:20260101T120000Z
DTSTART:202603{day:02}T090000Z
DTEND:202603{day:02}T100000Z
SUMMARY:{title}
END:VEVENT
END:VCALENDAR
"""


def main(port: str, action: str, *words: str) -> None:
    own = f"http://127.0.0.1:{port}/me/"
    client = caldav.DAVClient(own)
    calendar = caldav.Calendar(client=client, url=f"{own}work/")
    if action == "make":
        client.mkcol(own, "")
        client.mkcalendar(calendar.url, "")
    elif action == "add":
        calendar.save_event(EVENT.format(title=words[1], day=int(words[0])))
    else:
        found = calendar.date_search(datetime(2026, 3, 1), datetime(2026, 4, 1))
        print(
            "\n".join(sorted(str(event.vobject_instance.vevent.summary.value) for event in found))
        )


main(*sys.argv[1:])
