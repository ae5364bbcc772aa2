"""The schema of a team space: its version, and the migrations that lead to it, forward only.

Depends on nothing. Each migration runs in one transaction with the change of the version.
"""

from __future__ import annotations

_FIRST = """
create table leases (
    name text primary key,
    token bigint not null,
    owner text not null,
    backend_pid integer not null,
    taken_at timestamptz not null default clock_timestamp(),
    beat_at timestamptz not null default clock_timestamp()
);
create function lease_key(name text) returns bigint language sql stable as
$$ select hashtextextended(current_schema() || '/' || name, 0) $$;
create function is_held(name text) returns boolean language sql stable as
$$ select exists (
    select 1 from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
    and ((classid::bigint << 32) | objid::bigint) = lease_key(name)
) $$;
create table documents (
    team text not null,
    kind text not null,
    version bigint not null default 1,
    body bytea not null,
    primary key (team, kind)
);
create table archived_teams (
    entry text primary key,
    team text not null,
    archived_at timestamptz not null default clock_timestamp()
);
create table task_lists (
    list text primary key,
    highest bigint not null default 0
);
create table tasks (
    list text not null,
    id bigint not null,
    body bytea not null,
    status text not null,
    owner text,
    is_internal boolean not null,
    draft_by text,
    blocked_by bigint[] not null,
    changed_at timestamptz not null default clock_timestamp(),
    changed_by text not null,
    primary key (list, id)
);
create index tasks_free on tasks (list, id) where status = 'pending' and owner is null and not is_internal;
create index tasks_drafts on tasks (list, draft_by) where draft_by is not null;
create table mailboxes (
    team text not null,
    reader text not null,
    shown_name text not null,
    primary key (team, reader)
);
create table mail (
    team text not null,
    reader text not null,
    msg_id text not null,
    number bigint generated always as identity,
    sender text not null,
    body bytea not null,
    is_contentless boolean not null,
    is_read boolean not null default false,
    stored_at timestamptz not null default clock_timestamp(),
    stored_by text not null,
    primary key (team, reader, msg_id)
);
create index mail_unread on mail (team, reader, number) where not is_read;
create table session_files (
    session text not null,
    name text not null,
    size bigint not null,
    digest text not null default '',
    primary key (session, name)
);
create table session_parts (
    session text not null,
    name text not null,
    start bigint not null,
    content bytea not null,
    primary key (session, name, start)
);
create table sessions (
    session text primary key,
    cwd text not null,
    host text not null,
    begun_at timestamptz not null default clock_timestamp()
);
"""

_SECOND = """
create table attempts (
    process text not null,
    slot bigint not null,
    number bigint not null,
    made_at timestamptz not null default clock_timestamp(),
    primary key (process, slot)
);
"""
"""Each write records its attempt here, so that a process whose connection broke knows whether it was committed."""

_WORKERS = """
create table workers (
    name text primary key,
    host text not null,
    version text not null,
    labels text[] not null,
    slots integer not null,
    keys text[] not null,
    repositories text[] not null,
    started_at timestamptz not null default clock_timestamp()
);
create table start_orders (
    id bigint generated always as identity primary key,
    team text not null,
    member text not null,
    session text not null,
    label text not null,
    version text not null,
    keys text[] not null,
    repository text not null,
    commit_id text not null,
    body text not null,
    bundle bytea,
    state text not null default 'waiting',
    worker text,
    detail text not null default '',
    result bytea,
    made_at timestamptz not null default clock_timestamp(),
    check (state in ('waiting', 'claimed', 'running', 'ending', 'ended'))
);
create index start_orders_waiting on start_orders (id) where state = 'waiting';
create index start_orders_busy on start_orders (worker) where state in ('claimed', 'running', 'ending');
create table wire_frames (
    id bigint generated always as identity,
    start_order bigint not null references start_orders on delete cascade,
    to_lead boolean not null,
    link integer not null,
    body bytea not null,
    primary key (start_order, to_lead, id)
);
"""

_INTEGRATION = """
alter table tasks add column is_finished boolean not null default false;
update tasks set is_finished = true where status = 'completed';
alter table tasks alter column is_finished drop default;
"""
"""A completed task whose commit awaits its integration is not finished: it blocks others."""

_RATE_LIMITS = """
alter table space add column rate_limit_key bytea not null
    default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
create table rate_limits (
    credential text primary key,
    epoch bigint not null,
    level integer not null,
    running_limit double precision not null,
    paused_until timestamptz not null,
    refused_at timestamptz not null
);
"""
"""The limits of credentials. `credential` is a hash with a key that is random for each team space."""

_INTEGRATION_QUEUE = """
create table integration_entries (
    team text not null,
    id text not null,
    body bytea not null,
    primary key (team, id)
);
"""

_MAIL_NUMBERS = "create index mail_numbers on mail (team, reader, number);"
"""The newest message of a mailbox is found without a look at the others."""

MIGRATIONS: tuple[str, ...] = (
    *(_FIRST, _SECOND, _WORKERS, _INTEGRATION, _RATE_LIMITS),
    *(_INTEGRATION_QUEUE, _MAIL_NUMBERS),
)
"""The statements that lead from each version to the next: the first one makes version 1."""

VERSION = len(MIGRATIONS)
"""The version of the schema that this Teamwright uses. It uses no other."""
