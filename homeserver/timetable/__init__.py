# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's regular tasks, and notices to its owner when one fails.

- timetable: runs tasks when they are due
- tasks: checkpoints, check and prune of the store, free space
- notices: open problems, which the owner hears of
- channels: desktop, mail, webhook, ntfy
- record: the last run of each task and the open notices, on disk
"""

from homeserver.timetable.channels import Channel, channel_of
from homeserver.timetable.notices import Notices
from homeserver.timetable.record import Notice, TaskRun, TimetableRecord
from homeserver.timetable.tasks import HomeTasks
from homeserver.timetable.timetable import Task, Timetable

__all__ = [
    "Channel",
    "HomeTasks",
    "Notice",
    "Notices",
    "Task",
    "TaskRun",
    "Timetable",
    "TimetableRecord",
    "channel_of",
]
