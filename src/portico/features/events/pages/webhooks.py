"""Webhooks, for admins: the URLs that receive events, and the outcome of each delivery."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from portico.core.errors import NotFound, PreconditionFailed
from portico.core.events import (
    BY_HAND,
    EVENT_TYPES,
    EVERYTHING,
    FAILING,
    FAILING_DAYS,
    RECEIVER_GONE,
    Delivery,
    Webhook,
    as_shown,
    webhook_description,
)
from portico.core.ids import parse_id
from portico.core.times import MINUTE
from portico.features.events.pages.events import by_noun
from portico.features.events.storage import Deliveries, Webhooks
from portico.features.events.webhooks import (
    Signing,
    change_webhook,
    create_webhook,
    delete_webhook,
    read_webhook,
    redeliver,
    rotate_secret,
    test_webhook,
)
from portico.features.signin.pages.step_up import fresh
from portico.web.messages import Reply
from portico.web.pages.forms import Values, beside, outcome, require_version
from portico.web.pages.sent_once import fresh_key, shown_once
from portico.web.pages.site import ONCE, PageRoute, Visit

_PER_PAGE = 25
_SHORT = 18
"""The most characters of a URL's path in the name of a webhook."""
_SENT = ("webhook-tested", "webhook-resent")
_WHY = {
    BY_HAND: BY_HAND,
    RECEIVER_GONE: f"{RECEIVER_GONE}: its receiver answered 410",
    FAILING: f"{FAILING}: {FAILING_DAYS} days without a success",
}


class State(NamedTuple):
    """The state of a webhook, in words; `since` is in epoch milliseconds."""

    words: str
    colour: str
    why: str = ""
    since: int | None = None


def _state(webhook: Webhook) -> State:
    reason = webhook.disabled_reason
    if reason is not None:
        return State("Disabled", "" if reason == BY_HAND else "bad", _WHY[reason])
    if webhook.failing_since is not None:
        return State("Enabled", "warn", since=webhook.failing_since)
    return State("Enabled", "good")


def _name(webhook: Webhook) -> str:
    """The name of a webhook: its description, or else its host and as much of the path as fits."""
    _, _, address = webhook.url.partition("://")
    most = len(urlsplit(webhook.url).netloc) + _SHORT
    short = address if len(address) <= most else f"{address[: most - 1]}…"
    return webhook.description or short


async def failing(visit: Visit) -> list[tuple[int, str]]:
    """The ids and names of the webhooks that fail, or that were disabled for that; none for a user
    who may not see webhooks."""
    if "admin" not in visit.request.caller.scopes:
        return []
    webhooks = await visit.env[Webhooks].all()
    return [(one.id, _name(one)) for one in webhooks if _state(one).colour in ("warn", "bad")]


async def show_all(visit: Visit) -> Reply:
    """GET /webhooks: the newest first."""
    webhooks = reversed(await visit.env[Webhooks].all())
    return visit.page(
        "webhooks.html",
        "Webhooks",
        webhooks=[(webhook, _state(webhook)) for webhook in webhooks],
        delivered=await visit.env[Deliveries].last_delivered(),
    )


def _groups(webhook: Webhook | None) -> list[tuple[str, list[str]]]:
    """The event types to choose from, by title. Those that the webhook has and no title offers come
    last."""
    groups = by_noun(EVENT_TYPES)
    offered = {EVERYTHING, *(name for _, names in groups for name in names)}
    others = [name for name in webhook.types if name not in offered] if webhook else []
    return [*groups, ("Others", others)] if others else groups


def _values(url: str, types: Iterable[str], description: str) -> dict[str, str]:
    return {"URL": url, "Types": "\n".join(sorted(types)), "Description": description}


def _stored(webhook: Webhook) -> dict[str, str]:
    return _values(webhook.url, webhook.types, webhook.description)


def _form(visit: Visit, title: str, webhook: Webhook | None, mine: Values | None = None) -> Reply:
    """The form of a webhook, with another admin's changes beside `mine` if they conflict."""
    stored = _stored(webhook) if webhook else {}
    return visit.page(
        "webhook_form.html",
        title,
        **beside(visit.form, stored, mine),
        webhook=webhook,
        name=_name(webhook) if webhook else "",
        groups=_groups(webhook),
        once=fresh_key(visit),
    )


def _wanted(visit: Visit, webhook: Webhook | None) -> dict[str, Any]:
    form = visit.form
    allowed = {EVERYTHING, *(name for _, names in _groups(webhook) for name in names)}
    values = {
        "url": form.read("url", visit.env.destinations.check_url),
        "types": tuple(dict.fromkeys(form.chosen("types", allowed))),
        "description": form.optional("description", webhook_description) or "",
    }
    form.check()
    return values


def _made(visit: Visit, title: str, made: Signing) -> Reply:
    return visit.page("webhook_made.html", title, webhook=made.webhook, secret=made.secret)


async def show_new(visit: Visit) -> Reply:
    """GET /webhooks/new."""
    return _form(visit, "New webhook", None)


async def create(visit: Visit) -> Reply:
    """POST /webhooks/new."""
    wanted = _wanted(visit, None)
    return await shown_once(
        visit,
        lambda by: create_webhook(visit.env, wanted, by),
        lambda made: _made(visit, "The webhook was created", made),
    )


async def show(visit: Visit) -> Reply:
    """GET /webhooks/{id}, with the newest deliveries or those older than `before`."""
    env = visit.env
    webhook = await read_webhook(env, visit.request.resource_id)
    before = visit.sent_number("before")
    rows = await env[Deliveries].latest(webhook.id, before, _PER_PAGE + 1)
    shown = [as_shown(delivery, webhook) for delivery in rows[:_PER_PAGE]]
    # An event that was just sent becomes a delivery a moment later.
    due = visit.sent("done") in _SENT or any(_is_due(one, visit.request.now) for one in shown)
    return visit.page(
        "webhook.html",
        _name(webhook),
        webhook=webhook,
        state=_state(webhook),
        failing_days=FAILING_DAYS,
        deliveries=shown,
        before=before,
        due=due and not before,
        older=urlencode({"before": shown[-1].id}) if len(rows) > _PER_PAGE else "",
    )


async def show_delivery(visit: Visit) -> Reply:
    """GET /webhooks/delivery."""
    env = visit.env
    webhook = await read_webhook(env, visit.sent_number("webhook") or 0)
    delivery = await env[Deliveries].get(webhook.id, visit.sent_id())
    if delivery is None:
        raise NotFound("There is no such delivery, or it is no longer kept.")
    return visit.page(
        "delivery.html",
        delivery.type,
        webhook=webhook,
        webhook_name=_name(webhook),
        delivery=as_shown(delivery, webhook),
    )


def _is_due(delivery: Delivery, now: int) -> bool:
    """Whether a delivery is being tried or will be within a minute: the page then refreshes itself
    to show the outcome."""
    return delivery.next_attempt_at is not None and delivery.next_attempt_at <= now + MINUTE


async def send(visit: Visit) -> Reply:
    """POST /webhooks/{id}: send the form's delivery again or, without one, a test event."""
    webhook_id, delivery = visit.request.resource_id, visit.form.text("delivery")
    if delivery:
        await redeliver(visit.env, webhook_id, parse_id(delivery), await visit.by())
    else:
        await test_webhook(visit.env, webhook_id, await visit.by())
    return visit.go(f"/webhooks/{webhook_id}", done=_SENT[bool(delivery)])


async def show_edit(visit: Visit) -> Reply:
    """GET /webhooks/{id}/edit."""
    webhook = await read_webhook(visit.env, visit.request.resource_id)
    return _form(visit, "Edit webhook", webhook)


async def edit(visit: Visit) -> Reply:
    """POST /webhooks/{id}/edit."""
    webhook = await read_webhook(visit.env, visit.request.resource_id)
    wanted = _wanted(visit, webhook)

    def check(webhook: Webhook) -> None:
        require_version(visit.form, _stored(webhook))

    try:
        webhook = await change_webhook(visit.env, webhook.id, wanted, await visit.by(), check)
    except PreconditionFailed:
        webhook = await read_webhook(visit.env, webhook.id)
        return _form(visit, "Edit webhook", webhook, _values(**wanted))
    done = outcome(visit.form, _stored(webhook), "webhook-changed")
    return visit.go(f"/webhooks/{webhook.id}", done=done)


async def _ask(visit: Visit, *, verb: str) -> Reply:
    """GET /webhooks/VERB: ask for confirmation."""
    webhook = await read_webhook(visit.env, visit.sent_id())
    title, words, line = _QUESTIONS[verb]
    return visit.asks(
        title,
        webhook.url,
        line,
        words=words,
        danger=verb == "delete",
        action=f"/webhooks/{verb}",
        back=(f"/webhooks/{webhook.id}", _name(webhook)),
        id=webhook.id,
        **({ONCE: fresh_key(visit)} if verb == "secret" else {}),
    )


_QUESTIONS = {
    "disable": (
        "Disable this webhook?",
        "Disable webhook",
        "Pending deliveries are dropped, and nothing more is sent.",
    ),
    "enable": (
        "Enable this webhook?",
        "Enable webhook",
        "It receives events from now on. Events that it missed while disabled are not sent.",
    ),
    "secret": (
        "Create a new secret for this webhook?",
        "Create new secret",
        "Deliveries are also signed with the old secret for 24 hours, so that you can switch.",
    ),
    "delete": (
        "Delete this webhook?",
        "Delete webhook",
        "Pending deliveries are dropped, and nothing more is sent. This cannot be undone.",
    ),
}


async def _switch(visit: Visit, *, verb: str) -> Reply:
    """POST /webhooks/enable and /webhooks/disable."""
    webhook_id = visit.sent_id()
    values = {"enabled": verb == "enable"}
    await change_webhook(visit.env, webhook_id, values, await visit.by())
    return visit.go(f"/webhooks/{webhook_id}", done=f"webhook-{verb}d")


async def new_secret(visit: Visit) -> Reply:
    """POST /webhooks/secret."""
    return await shown_once(
        visit,
        lambda by: rotate_secret(visit.env, visit.sent_id(), by),
        lambda made: _made(visit, "The webhook has a new secret", made),
    )


async def delete(visit: Visit) -> Reply:
    """POST /webhooks/delete."""
    await delete_webhook(visit.env, visit.sent_id(), await visit.by())
    return visit.go("/webhooks", done="webhook-deleted")


PAGES = (
    PageRoute("GET", "/webhooks", show_all, "admin"),
    PageRoute("GET", "/webhooks/new", show_new, "admin"),
    PageRoute("POST", "/webhooks/new", fresh(create), "admin"),
    PageRoute("GET", "/webhooks/{id}", show, "admin"),
    PageRoute("POST", "/webhooks/{id}", send, "admin"),
    PageRoute("GET", "/webhooks/{id}/edit", show_edit, "admin"),
    PageRoute("POST", "/webhooks/{id}/edit", fresh(edit), "admin"),
    PageRoute("GET", "/webhooks/delivery", show_delivery, "admin"),
    *(
        PageRoute("GET", f"/webhooks/{verb}", partial(_ask, verb=verb), "admin")
        for verb in _QUESTIONS
    ),
    *(
        PageRoute("POST", f"/webhooks/{verb}", partial(_switch, verb=verb), "admin")
        for verb in ("disable", "enable")
    ),
    PageRoute("POST", "/webhooks/secret", fresh(new_secret), "admin"),
    PageRoute("POST", "/webhooks/delete", delete, "admin"),
)
