"""`portico webhooks`: manages webhooks and their deliveries."""

from argparse import Namespace

from msgspec.structs import asdict

from portico.cli.asking import asks, confirm
from portico.cli.output import CommandError, answer, command_line, minute, plain, table
from portico.cli.prepared import in_environment
from portico.contract.webhooks import DeliveryItem, delivery_item, webhook_item, webhook_with_secret
from portico.domain.audit import OPERATOR
from portico.domain.errors import Invalid
from portico.domain.webhooks import Delivery, Webhook
from portico.services import webhooks
from portico.services.environment import Environment
from portico.services.webhooks import Signing
from portico.settings import Settings

SHOWN_OF_ANSWER = 60
"""How many characters of a receiver's answer the table shows. JSON has all that was stored."""


def run_create(settings: Settings, chosen: Namespace) -> None:
    values = {
        "url": chosen.url,
        "types": tuple(dict.fromkeys(chosen.types)),
        "description": chosen.description,
    }
    try:
        made = in_environment(
            settings, chosen, lambda env: webhooks.create_webhook(env, values, OPERATOR)
        )
    except Invalid as error:
        text = "; ".join(f"--{fault.field} {fault.message}" for fault in error.details)
        raise CommandError(text, 2) from None
    _show_secret(made, f"Webhook {made.webhook.id} is created: {made.webhook.url}", chosen)


def run_rotate_secret(settings: Settings, chosen: Namespace) -> None:
    made = in_environment(
        settings, chosen, lambda env: webhooks.rotate_secret(env, chosen.id, OPERATOR)
    )
    text = f"Webhook {chosen.id} has a new secret."
    if made.webhook.former_secret is not None:
        text += " For 24 hours the old one signs too."
    _show_secret(made, text, chosen)


def _show_secret(made: Signing, text: str, chosen: Namespace) -> None:
    rotate = command_line(f"webhooks rotate-secret {made.webhook.id}", sandbox=chosen.sandbox)
    answer(
        webhook_with_secret(made.webhook, made.secret),
        f"{text}\n\n  secret   {made.secret}\n\nStore it now; it is not shown again.",
        as_json=chosen.json,
        lost=f"Webhook {made.webhook.id} has the new secret: {rotate} prints another.",
    )


def run_list(settings: Settings, chosen: Namespace) -> None:
    rows = in_environment(settings, chosen, lambda env: env.webhooks.all())
    answer([webhook_item(row) for row in rows], _table(rows), as_json=chosen.json)


def _table(rows: list[Webhook]) -> str:
    if not rows:
        return "There are no webhooks."
    cells = [
        (
            str(row.id),
            "enabled" if row.enabled else f"disabled ({row.disabled_reason})",
            row.url,
            " ".join(row.types),
            plain(row.description),
            minute(row.created_at),
        )
        for row in rows
    ]
    return table([("ID", "STATUS", "URL", "TYPES", "DESCRIPTION", "CREATED"), *cells])


def run_deliveries(settings: Settings, chosen: Namespace) -> None:
    async def read(env: Environment) -> list[tuple[DeliveryItem, Delivery]]:
        webhook = await webhooks.read_webhook(env, chosen.id)
        page = await env.deliveries.page(webhook.id, offset=0, limit=chosen.limit)
        return [(delivery_item(row, webhook), row) for row in page.rows]

    found = in_environment(settings, chosen, read)
    facts = [{**asdict(item), "answer": row.answer} for item, row in found]
    answer(facts, _deliveries_table(found), as_json=chosen.json)


def _deliveries_table(found: list[tuple[DeliveryItem, Delivery]]) -> str:
    if not found:
        return "There are no deliveries."
    headings = ("ID", "EVENT", "TYPE", "CREATED", "STATUS", "ATTEMPTS", "NEXT", "MS", "ANSWER")
    rows = [
        (
            str(item.id),
            str(item.event_id),
            item.type,
            minute(row.created_at),
            item.status,
            str(item.attempts),
            "" if item.next_attempt_at is None else minute(row.next_attempt_at or 0),
            "" if item.last_milliseconds is None else str(item.last_milliseconds),
            _answered(item, row.answer),
        )
        for item, row in found
    ]
    return table([headings, *rows])


def _answered(item: DeliveryItem, body: str | None) -> str:
    """The outcome of the last attempt, in short."""
    if item.last_status is None:
        return plain(item.last_error or "")
    return f"{item.last_status} {plain(body or '')[:SHOWN_OF_ANSWER]}"


def run_redeliver(settings: Settings, chosen: Namespace) -> None:
    in_environment(
        settings,
        chosen,
        lambda env: webhooks.redeliver(env, chosen.id, chosen.delivery_id, OPERATOR),
    )
    facts = {"id": chosen.id, "delivery_id": chosen.delivery_id}
    answer(facts, "It will be delivered again.", as_json=chosen.json)


def run_test(settings: Settings, chosen: Namespace) -> None:
    in_environment(settings, chosen, lambda env: webhooks.test_webhook(env, chosen.id, OPERATOR))
    deliveries = command_line(f"webhooks deliveries {chosen.id}", sandbox=chosen.sandbox)
    text = f"A running server sends a ping now. See the result with: {deliveries}"
    answer({"id": chosen.id}, text, as_json=chosen.json)


def run_enable(settings: Settings, chosen: Namespace) -> None:
    webhook = _switched(settings, chosen, enabled=True)
    text = f"Webhook {webhook.id} is enabled and receives events from now on."
    answer(webhook_item(webhook), text, as_json=chosen.json)


def run_disable(settings: Settings, chosen: Namespace) -> None:
    webhook = _switched(settings, chosen, enabled=False)
    text = f"Webhook {webhook.id} is disabled and receives no more events."
    answer(webhook_item(webhook), text, as_json=chosen.json)


def _switched(settings: Settings, chosen: Namespace, *, enabled: bool) -> Webhook:
    values = {"enabled": enabled}
    return in_environment(
        settings,
        chosen,
        lambda env: webhooks.change_webhook(env, chosen.id, values, OPERATOR),
    )


def run_delete(settings: Settings, chosen: Namespace) -> None:
    if asks(chosen):
        found = in_environment(settings, chosen, lambda env: webhooks.read_webhook(env, chosen.id))
        confirm(f"Delete webhook {found.id}, {plain(found.url)}?")
    in_environment(settings, chosen, lambda env: webhooks.delete_webhook(env, chosen.id, OPERATOR))
    answer({"id": chosen.id}, f"Webhook {chosen.id} is deleted.", as_json=chosen.json)
