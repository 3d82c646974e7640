"""Use cases of identity providers: visit one, sign in with it, link an account to it.

A provider's answer is a first factor, as a password is. A link assigns it to an account: it names
the issuer and the subject, which the issuer never changes. Only a user who is signed in, or signs
in right afterwards with another method and then agrees, can create one; a matching e-mail alone is
not enough.
"""

import logging
from typing import NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import BrokenRule, Conflict, NotFound
from portico.core.providers import (
    VISIT_SECONDS,
    Person,
    Provider,
    ProviderLink,
    ProviderVisit,
    permits,
)
from portico.core.secrets import digest, mint
from portico.core.times import SECOND
from portico.core.users import User, same_mailbox
from portico.core.users import name as user_name
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.access.credentials import SUSPENDED
from portico.features.people.invitations import accept_by_email
from portico.features.people.rules import InvitationAccepted, UserCreated
from portico.features.people.storage import Users
from portico.features.people.users import locked_user
from portico.features.signin.openid import LoginAttempt, NotAccepted, ProviderAnswer, RelyingParty
from portico.features.signin.rules import ProviderLinked, ProviderUnlinked
from portico.features.signin.second_factor import keep_a_way_in, tell_of_ways_in
from portico.features.signin.service import note_refusal
from portico.features.signin.storage import FactorStore, ProviderStore

_LOST = (
    "This sign-in was not started in this browser, took longer than ten minutes, or is already"
    " finished. Start again."
)

_AGAIN = "again_"
"""The prefix of the secret of a visit for which the provider must authenticate the person anew. The
secret is stored as a digest, so a browser cannot add the prefix to another visit."""

_DENIED = "access_denied"

log = logging.getLogger(__name__)


class BegunVisit(NamedTuple):
    """A visit that has begun: the secret for the browser's cookie, and the provider's address."""

    secret: str
    address: str


class Known(NamedTuple):
    """The person that a provider has named and the account linked to them, None if there is none.
    `again` is whether the provider was asked to authenticate them anew."""

    person: Person
    user: User | None
    visit: ProviderVisit
    again: bool


class AwaitedLink(NamedTuple):
    """The person to whom the account that signs in next in a browser may be linked."""

    provider: Provider
    person: Person

    def fits(self, user: User) -> bool:
        """Whether an account has the person's e-mail."""
        return same_mailbox(self.person.email, user.email)


async def begin_visit(
    env: Environment,
    provider: Provider,
    redirect_uri: str,
    target: str,
    by: Author,
    *,
    user_id: int | None,
    again: bool,
) -> BegunVisit:
    """Begins a visit to a provider: to sign in or, with `user_id`, to link that account. With
    `again` the provider is asked to authenticate the person anew, which one without OpenID Connect
    cannot prove to have done. Raises `Unavailable`."""
    again = again and provider.plain is None
    secret = mint(_AGAIN if again else "", env.random)
    address = await env[RelyingParty].address(
        provider, LoginAttempt.of(secret), redirect_uri, again=again
    )
    await _keep_visit(env, secret, ProviderVisit(provider.name, target, user_id, None, "", 0), by)
    return BegunVisit(secret, address)


async def end_visit(
    env: Environment,
    provider: Provider,
    redirect_uri: str,
    secret: str,
    answer: ProviderAnswer,
    by: Author,
) -> Known:
    """Ends a visit, once, with the answer that the browser brought back. Returns the person and
    their account, which is created if the provider may do so. Raises `NotAccepted` and
    `Unavailable`."""
    attempt = LoginAttempt.of(secret)
    if not answer.belongs_to(attempt):
        raise NotAccepted(_LOST)
    visit = await _take_visit(env, secret, by)
    if visit is None or visit.provider != provider.name or visit.subject is not None:
        raise NotAccepted(_LOST)
    if answer.error:
        if answer.error != _DENIED:  # which is the person's own choice
            log.warning("%s signed nobody in: it reported %.100r", provider.name, answer.error)
        raise NotAccepted(_denied(provider, answer.error))
    again = secret.startswith(_AGAIN)
    since = visit.begun_at if again else None
    person = await env[RelyingParty].person(provider, attempt, redirect_uri, answer, since=since)
    if not permits(provider, person):
        if visit.user_id is None:
            await note_refusal(env, await _user(env, provider, person), "provider", by)
        raise NotAccepted(
            f"{person.email or 'This account'} may not sign in here with {provider.label}: that"
            f" needs a verified e-mail at {' or '.join(provider.domains)}."
        )
    if visit.user_id is not None:
        return Known(person, None, visit, again)
    user = await _user(env, provider, person)
    if user is None and provider.create_users:
        user = await _create(env, provider, person, by)
    if user is not None and user.suspended_at is not None:
        await note_refusal(env, user, "provider", by)
        raise NotAccepted(SUSPENDED)
    return Known(person, user, visit, again)


async def await_link(env: Environment, provider: Provider, known: Known, by: Author) -> str:
    """Lets the account that signs in next in this browser be linked to a person who has no link
    yet, if both have the same e-mail. Returns the secret for the browser's cookie. Raises
    `NotAccepted` unless the provider has verified the person's e-mail: anybody may have typed it
    there, and its owner would be asked to link a stranger."""
    person = known.person
    if not (person.email and person.email_verified):
        raise NotAccepted(
            f"No account here is linked to this account of {provider.label}, which did not give"
            " a verified e-mail. Sign in another way, then link it under Sign-in security."
        )
    secret = mint("", env.random)
    target = known.visit.target
    visit = ProviderVisit(provider.issuer, target, None, person.subject, person.email, 0)
    await _keep_visit(env, secret, visit, by)
    return secret


async def awaited_link(env: Environment, secret: str | None) -> AwaitedLink | None:
    """The person to whom the next account to sign in in this browser may be linked, if any."""
    visit = await env[ProviderStore].visit(digest(secret)) if secret else None
    if visit is None or visit.subject is None or visit.expires_at <= env.clock():
        return None
    for provider in env.sign_in_by.values():
        if provider.issuer == visit.provider:
            person = Person(visit.subject, visit.email, email_verified=True, name="")
            return AwaitedLink(provider, person)
    return None


async def end_awaited_link(env: Environment, secret: str, by: Author) -> None:
    """Links nobody in this browser any more."""
    await _take_visit(env, secret, by)


async def link(
    env: Environment, provider: Provider, person: Person, user_id: int, by: Author
) -> None:
    """Links an account to a person at a provider, and tells the user by mail. A link that exists
    already stays as it is. Raises `NotFound`, and `Conflict` if the person is linked to another
    account."""

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        await _add(env, change, provider, person, user, by)
        name = person.email or person.subject
        label = provider.label
        await tell_of_ways_in(env, change, user, "provider-linked", by, provider=label, name=name)

    try:
        await env.change(by, work)
    except UniqueViolation:
        known = await env[ProviderStore].link(provider.issuer, person.subject)
        if known is not None and known.user_id == user_id:
            return
        raise Conflict(
            f"This account of {provider.label} is linked to another account here. Unlink it there"
            " first."
        ) from None


async def unlink(env: Environment, user_id: int, link_id: int, by: Author) -> None:
    """Deletes a link, and tells the user by mail. Raises `NotFound`, and `Conflict` if it is the
    only way to sign in."""

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        links = await env[ProviderStore].links_of(user_id, change.tx)
        found = next((one for one in links if one.id == link_id), None)
        if found is None:
            raise NotFound("There is no such link; it may have been removed.")
        await env[ProviderStore].remove_link(change.tx, user_id, link_id)
        await keep_a_way_in(env, change, user)
        await env[FactorStore].delete_pending_of_user(change.tx, user_id)
        change.note(ProviderUnlinked(user, found.issuer))
        label, name = label_of(env, found) or found.issuer, found.email or found.subject
        await tell_of_ways_in(env, change, user, "provider-unlinked", by, provider=label, name=name)

    await env.change(by, work)


def label_of(env: Environment, link: ProviderLink) -> str:
    """The label of a link's provider; empty if it is no longer configured."""
    found = (one.label for one in env.sign_in_by.values() if one.issuer == link.issuer)
    return next(found, "")


async def _user(env: Environment, provider: Provider, person: Person) -> User | None:
    known = await env[ProviderStore].link(provider.issuer, person.subject)
    return None if known is None else await env[Users].get(known.user_id)


async def _create(env: Environment, provider: Provider, person: Person, by: Author) -> User | None:
    """Creates an account for a person whose e-mail the provider has verified, with the role and
    plan of their invitation, if an admin sent one. None if the e-mail is not verified, or an
    account has it."""
    if not (person.email and person.email_verified):
        return None

    async def work(change: Change) -> User | None:
        if await env[Users].by_email(person.email, change.tx):
            return None
        invited = await accept_by_email(env, change, person.email)
        user = User(
            id=0,
            name=_name(person),
            email=person.email,
            role=invited.role if invited else provider.role,
            plan=invited.plan if invited else "free",
            password_hash=None,
            created_at=change.now,
            updated_at=change.now,
            email_verified_at=change.now,
        )
        user = await env[Users].insert(change.tx, user)
        themselves = by.proving("provider", user)
        if invited:
            change.note(InvitationAccepted(invited), themselves)
        change.note(UserCreated(user), themselves)
        await _add(env, change, provider, person, user, themselves)
        return user

    try:
        return await env.change(by.without_principal, work)
    except UniqueViolation:  # another visit has just created it
        return await _user(env, provider, person)


async def _add(
    env: Environment, change: Change, provider: Provider, person: Person, user: User, by: Author
) -> None:
    new = ProviderLink(0, user.id, provider.issuer, person.subject, person.email, change.now)
    await env[ProviderStore].add_link(change.tx, new)
    change.note(ProviderLinked(user, provider.issuer), by)


async def _keep_visit(env: Environment, secret: str, visit: ProviderVisit, by: Author) -> None:
    async def work(change: Change) -> None:
        until = change.now + VISIT_SECONDS * SECOND
        lasting = msgspec.structs.replace(visit, expires_at=until)
        await env[ProviderStore].add_visit(change.tx, digest(secret), lasting)
        change.noted_elsewhere()  # by signing in, or linking

    await env.change(by.without_principal, work)


async def _take_visit(env: Environment, secret: str, by: Author) -> ProviderVisit | None:
    async def work(change: Change) -> ProviderVisit | None:
        change.noted_elsewhere()  # by signing in, or linking
        return await env[ProviderStore].take_visit(change.tx, digest(secret), change.now)

    return await env.change(by.without_principal, work)


def _name(person: Person) -> str:
    for name in (person.name, person.email.partition("@")[0]):
        try:
            return user_name(name)
        except BrokenRule:
            continue
    return person.email[:100]


def _denied(provider: Provider, error: str) -> str:
    if error == _DENIED:
        return f"{provider.label} was not allowed to sign you in here. Nothing was changed."
    reason = error if error.replace("_", "").isalnum() and len(error) < 50 else "an error"
    return (
        f"{provider.label} did not sign you in and reported {reason}. Try again, or sign in another"
        " way."
    )
