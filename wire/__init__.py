# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that crosses a machine boundary: HTTP over Unix sockets, carried by OpenSSH.

- peer: the program at the other end of a connection; never trusted with more than its key allows
- host: a machine that ssh reaches (`SshHost`), known by its host key
- link: one persistent ssh connection to a host (`SshLink`), which carries streams to its door
- door: what sshd runs for a link at its other end, and all that the link's key can do (`open_door`)
- links: those of a program (`Links`), each made again when it breaks (`Link`)
- lane: what a link is for, operations or bulk; two lanes to a host are two links
- message: a frozen dataclass that travels as strict JSON (`messages`, codec in `codec`)
- report: an error as it travels (`ErrorReport`); it is raised at the other side as its root class
- batch: chunk references in, pack records out (`chunks`), with a priority
- conversation: frames in both directions (`Duplex`); it outlives its connections (`Caller`,
  `ConversationListener`), and what is in the frames is nothing to this package
- priority_semaphore: who is served first of those who ask at once
- authority: a site's keys that certify guests and hosts (`Authority`)
- upstream: a service of the internet, with its TLS verified (`Upstream`)
- announcement: what a surrogate says of itself on its network (`Announcer`, `DiscoveredSurrogate`)
- pairing: a code that is shown (`Invitation`), and what whoever has it gets (`Grant`)
- identity: an OpenSSH key pair; it logs in and it signs (`Identity`)

Rooms: link (OpenSSH), http, keys, conversation, ports. `.importlinter` says which is above which.
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from wire.chunks import (
        BATCH_LIMIT,
        PLACES_LIMIT,
        ChunkClient,
        Priority,
        chunk_routes,
        requested_priority,
        requested_rate,
    )
    from wire.conversation.duplex import FRAME_LIMIT, ConversationEnded, Duplex, PeerFailed, Reply
    from wire.conversation.greeting import Caller, ConversationListener, ConversationOwner
    from wire.errors import (
        ErrorReport,
        HostKeyMismatch,
        HostUnreachable,
        LocalProtocolError,
        PeerTimeout,
        PeerUnreachable,
        RemoteProtocolError,
        SignatureInvalid,
        SignerRevoked,
        SignerUnknown,
        WrongKey,
        printable,
    )
    from wire.http.client import HttpAnswer, HttpClient
    from wire.http.conversation import (
        Conversations,
        HttpExchange,
        ProgramGone,
        refusal,
    )
    from wire.http.credentials import BadCredentials, Credentials, read_credentials
    from wire.http.intake import Intake
    from wire.http.metrics import exposition, metrics_app
    from wire.http.openapi import octets, query, query_number, serve_description, takes
    from wire.http.pages import CachedView, Page, View
    from wire.http.server import (
        JSON_BODY_LIMIT,
        Server,
        bound_json,
        install_errors,
        serve,
        streamed,
    )
    from wire.http.sites import LOOPBACK_HOSTS, refuse_other_sites
    from wire.http.upstream import (
        AnswerDamaged,
        AnswerTooLong,
        ServiceAnswer,
        ServiceUnreachable,
        Upstream,
    )
    from wire.keys.authority import Authority, authority_line, host_keys, read_certificate
    from wire.keys.identity import (
        Identity,
        aliased_lines,
        allowed_signers_line,
        authorized_keys_line,
        fingerprint,
        known_fingerprints,
        known_hosts_line,
        knows_host,
        signer_of,
        verify_signer,
    )
    from wire.keys.pairing import (
        PAIRING_PORT,
        Address,
        Grant,
        Invitation,
        PairRequest,
        own_address,
        pair,
    )
    from wire.keys.statements import (
        HOME_REPLICA,
        STATEMENT_NAMESPACE,
        AnswerKey,
        AnswerSigner,
        Statement,
    )
    from wire.keys.visitor import NobodyKnown, visitor
    from wire.link.door import API, Names, NoSuchStream, ask_daemon, open_door
    from wire.link.door_places import TooManyDoors, take_door_place
    from wire.link.links import SELDOM_SECONDS, Link, Links
    from wire.link.openssh import Lane, SshHost
    from wire.link.peers import MovedPeer, Peer
    from wire.link.route_watch import RouteWatch
    from wire.link.ssh import LinkState, SshLink
    from wire.link.sshd import door_settings, not_in_force, shell_lines, sshd_in_force, sshd_snippet
    from wire.messages import (
        RUNS_LIMIT,
        CacheNumbers,
        CreateReplica,
        DeltaOffer,
        EdgeShare,
        ForesightNumbers,
        HandoverState,
        HostStatus,
        JsonMessage,
        Lease,
        PartNumbers,
        ReplicaStatus,
        ServiceStatus,
        SignedStatement,
        SourceAddress,
        SourceNumbers,
        Space,
        StagingStatus,
        StallNumbers,
        TouchReport,
        VolumeNumbers,
        runs_of,
    )
    from wire.nearby import (
        Announcement,
        Announcer,
        DiscoveredSurrogate,
        SurrogateListener,
        round_trip,
        surrogates_here,
    )
    from wire.ports.acceptor import Acceptor
    from wire.ports.egress import (
        Egress,
        EgressFailed,
        EgressRefused,
        join,
        read_destination,
        send_destination,
    )
    from wire.ports.listening import listen_local, listen_unix
    from wire.ports.loopback import LoopbackPeer, is_own_user
    from wire.ports.stream_port import StreamPort
    from wire.priority_semaphore import PrioritySemaphore
    from wire.receive_rate import ReceiveRate
    from wire.traces import SpanReport, TimedSpan, answer_spans, note_requests
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "API",
    "BATCH_LIMIT",
    "FRAME_LIMIT",
    "HOME_REPLICA",
    "JSON_BODY_LIMIT",
    "LOOPBACK_HOSTS",
    "PAIRING_PORT",
    "PLACES_LIMIT",
    "RUNS_LIMIT",
    "SELDOM_SECONDS",
    "STATEMENT_NAMESPACE",
    "Acceptor",
    "Address",
    "Announcement",
    "Announcer",
    "AnswerDamaged",
    "AnswerKey",
    "AnswerSigner",
    "AnswerTooLong",
    "Authority",
    "BadCredentials",
    "CacheNumbers",
    "CachedView",
    "Caller",
    "ChunkClient",
    "ConversationEnded",
    "ConversationListener",
    "ConversationOwner",
    "Conversations",
    "CreateReplica",
    "Credentials",
    "DeltaOffer",
    "DiscoveredSurrogate",
    "Duplex",
    "EdgeShare",
    "Egress",
    "EgressFailed",
    "EgressRefused",
    "ErrorReport",
    "ForesightNumbers",
    "Grant",
    "HandoverState",
    "HostKeyMismatch",
    "HostStatus",
    "HostUnreachable",
    "HttpAnswer",
    "HttpClient",
    "HttpExchange",
    "Identity",
    "Intake",
    "Invitation",
    "JsonMessage",
    "Lane",
    "Lease",
    "Link",
    "LinkState",
    "Links",
    "LocalProtocolError",
    "LoopbackPeer",
    "MovedPeer",
    "Names",
    "NoSuchStream",
    "NobodyKnown",
    "Page",
    "PairRequest",
    "PartNumbers",
    "Peer",
    "PeerFailed",
    "PeerTimeout",
    "PeerUnreachable",
    "Priority",
    "PrioritySemaphore",
    "ProgramGone",
    "ReceiveRate",
    "RemoteProtocolError",
    "ReplicaStatus",
    "Reply",
    "RouteWatch",
    "Server",
    "ServiceAnswer",
    "ServiceStatus",
    "ServiceUnreachable",
    "SignatureInvalid",
    "SignedStatement",
    "SignerRevoked",
    "SignerUnknown",
    "SourceAddress",
    "SourceNumbers",
    "Space",
    "SpanReport",
    "SshHost",
    "SshLink",
    "StagingStatus",
    "StallNumbers",
    "Statement",
    "StreamPort",
    "SurrogateListener",
    "TimedSpan",
    "TooManyDoors",
    "TouchReport",
    "Upstream",
    "View",
    "VolumeNumbers",
    "WrongKey",
    "aliased_lines",
    "allowed_signers_line",
    "answer_spans",
    "ask_daemon",
    "authority_line",
    "authorized_keys_line",
    "bound_json",
    "chunk_routes",
    "door_settings",
    "exposition",
    "fingerprint",
    "host_keys",
    "install_errors",
    "is_own_user",
    "join",
    "known_fingerprints",
    "known_hosts_line",
    "knows_host",
    "listen_local",
    "listen_unix",
    "metrics_app",
    "not_in_force",
    "note_requests",
    "octets",
    "open_door",
    "own_address",
    "pair",
    "printable",
    "query",
    "query_number",
    "read_certificate",
    "read_credentials",
    "read_destination",
    "refusal",
    "refuse_other_sites",
    "requested_priority",
    "requested_rate",
    "round_trip",
    "runs_of",
    "send_destination",
    "serve",
    "serve_description",
    "shell_lines",
    "signer_of",
    "sshd_in_force",
    "sshd_snippet",
    "streamed",
    "surrogates_here",
    "take_door_place",
    "takes",
    "verify_signer",
    "visitor",
]
