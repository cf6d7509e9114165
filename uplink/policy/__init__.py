# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The decisions of uplink: which requests wait, which answers are cached, what a service means.

Pure: no clock, no network, no threads. The caller gives the time and acts on the decision.

- radio: the states of an interface and their costs; the ledger of joules, which a model computes
- batcher: how long uploads are held, and why a batch goes
- upload: a held upload, and its states
- sigv4: requests that are signed one by one, as S3 asks for
- services: descriptions of what a service's requests mean, and how one uploads to it
- objects: S3's lists of objects
- dialogue: the requests of an upload, one after the other
- davxml: WebDAV's lists of properties, which are changed on the way through
- path_knowledge: what is known of files and folders at a service
- mirror, treesync: what a tree of folders has, and how it is made to have what the service has
- crawl: programs that ask for a whole tree of folders, told from people
- conditions: conditional and ranged requests, and ages that they allow
- cache: which answers are kept, for whom, and for how long
- held upload: an upload that the program takes for done and the service does not have yet
- batch: held uploads that go in one burst
"""

from uplink.policy.batcher import (
    Batcher,
    Reason,
    growth_per_mb,
)
from uplink.policy.cache import CacheFreshness, cache_key, freshness, keepable
from uplink.policy.conditions import (
    CONDITIONS,
    PRECONDITION_FAILED,
    allowed_age,
    failed_condition,
    read_date,
    wanted_range,
)
from uplink.policy.crawl import Crawl, Crawls
from uplink.policy.davxml import (
    BadDavXml,
    DavEntry,
    ask_for_etags,
    edit_listing,
    read_listing,
    read_members,
    rewrite_hrefs,
    split_tree,
)
from uplink.policy.dialogue import DialogueVerdict, StepAnswer, StepRequest, run_dialogue
from uplink.policy.mirror import Mirror, TreeTooLarge
from uplink.policy.objects import (
    BadObjectList,
    FolderQuestion,
    ObjectPage,
    folder_lists,
    read_folder_question,
    read_objects,
)
from uplink.policy.path_knowledge import Knowledge, KnownPath, plain
from uplink.policy.radio import (
    BadRadio,
    Interface,
    Ledger,
    RadioModel,
    RadioState,
    TailStage,
    built_in_radios,
    read_radios,
)
from uplink.policy.services import (
    BadDescription,
    Description,
    DialogueStep,
    Outcome,
    Pattern,
    RequestKind,
    built_in_descriptions,
    read_description,
)
from uplink.policy.sigv4 import Signature, read_signature, signed_headers, verified
from uplink.policy.treesync import Ask, DavQuestion, Deltas, NoTree, TreeSync
from uplink.policy.upload import Condition, Upload, UploadState

__all__ = [
    "CONDITIONS",
    "PRECONDITION_FAILED",
    "Ask",
    "BadDavXml",
    "BadDescription",
    "BadObjectList",
    "BadRadio",
    "Batcher",
    "CacheFreshness",
    "Condition",
    "Crawl",
    "Crawls",
    "DavEntry",
    "DavQuestion",
    "Deltas",
    "Description",
    "DialogueStep",
    "DialogueVerdict",
    "FolderQuestion",
    "Interface",
    "Knowledge",
    "KnownPath",
    "Ledger",
    "Mirror",
    "NoTree",
    "ObjectPage",
    "Outcome",
    "Pattern",
    "RadioModel",
    "RadioState",
    "Reason",
    "RequestKind",
    "Signature",
    "StepAnswer",
    "StepRequest",
    "TailStage",
    "TreeSync",
    "TreeTooLarge",
    "Upload",
    "UploadState",
    "allowed_age",
    "ask_for_etags",
    "built_in_descriptions",
    "built_in_radios",
    "cache_key",
    "edit_listing",
    "failed_condition",
    "folder_lists",
    "freshness",
    "growth_per_mb",
    "keepable",
    "plain",
    "read_date",
    "read_description",
    "read_folder_question",
    "read_listing",
    "read_members",
    "read_objects",
    "read_radios",
    "read_signature",
    "rewrite_hrefs",
    "run_dialogue",
    "signed_headers",
    "split_tree",
    "verified",
    "wanted_range",
]
