"""`portico webhooks`: manages webhooks and their deliveries."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from portico.cli.arguments import (
    Commands,
    Run,
    add_limit,
    add_sandbox,
    add_yes,
    by_rule,
    row_id,
    text,
)
from portico.cli.lazy import lazy_imports
from portico.cli.output import (
    CommandError,
    answer,
    asks,
    command_line,
    confirm,
    minute,
    plain,
    table,
)

if TYPE_CHECKING:
    from portico.core.events import Delivery, Webhook
    from portico.environment import Environment
    from portico.features.events.schemas import DeliveryItem
    from portico.features.events.webhooks import Signing
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared
    from portico.core import audit, errors
    from portico.core import events as domain_webhooks
    from portico.core import text as domain_text
    from portico.features.events import schemas as contract_webhooks
    from portico.features.events import storage as events_storage
    from portico.features.events import webhooks

DEFAULT_LIMIT = 25

SHOWN_OF_ANSWER = 60
"""How many characters of a receiver's answer the table shows. JSON has all that was stored."""


def add_to(commands: Commands) -> None:
    """Declares `portico webhooks …`."""
    webhooks = commands.noun("webhooks", "send events to your own URLs as they happen")
    _add_webhook_options(
        webhooks.verb(
            "create",
            run_create,
            "create a webhook and print its secret once",
            "It receives events from now on. Its URL must use https and a public address, unless"
            "\nwebhooks_allow allows an exception.",
        )
    )
    add_sandbox(webhooks.verb("list", run_list, "list webhooks, oldest first"))
    _add_deliveries(webhooks)
    _of_one(webhooks, "test", run_test, "send a test event (ping) to a webhook")
    _of_one(
        webhooks,
        "rotate-secret",
        run_rotate_secret,
        "create a new secret for a webhook and print it once",
        "For 24 hours, deliveries are also signed with the old secret. At most two secrets sign.",
    )
    _of_one(
        webhooks,
        "disable",
        run_disable,
        "stop sending events to a webhook, and drop pending deliveries",
    )
    _of_one(webhooks, "enable", run_enable, "send a webhook new events again")
    add_yes(_of_one(webhooks, "delete", run_delete, "delete a webhook"))


def _add_deliveries(webhooks: Commands) -> None:
    """Declares the commands on deliveries."""
    deliveries = _of_one(
        webhooks,
        "deliveries",
        run_deliveries,
        "show the deliveries of a webhook, newest first",
        "ANSWER is the status and the beginning of the receiver's response to the last attempt, or"
        "\nthe reason why there was none.",
    )
    add_limit(deliveries, "deliveries", DEFAULT_LIMIT)
    redeliver = _of_one(webhooks, "redeliver", run_redeliver, "send an event again")
    redeliver.add_argument(
        "delivery_id",
        metavar="DELIVERY",
        type=row_id,
        help="delivery ID from portico webhooks deliveries",
    )


def _of_one(
    webhooks: Commands, name: str, run: Run, summary: str, details: str = ""
) -> ArgumentParser:
    """Declares a command on one webhook and returns its parser."""
    command = webhooks.verb(name, run, summary, details)
    command.add_argument(
        "id", metavar="ID", type=row_id, help="webhook ID from portico webhooks list"
    )
    add_sandbox(command)
    return command


def _add_webhook_options(create: ArgumentParser) -> None:
    """Adds the options that describe a new webhook."""
    create.add_argument(
        "--url",
        metavar="U",
        type=by_rule(lambda given: domain_text.web_url(given)),
        required=True,
        help="URL to send events to",
    )
    create.add_argument(
        "--types",
        metavar="T",
        type=text,
        nargs="+",
        action="extend",
        required=True,
        help="event types such as product.updated; 'product.*' for all of a kind (products.imported"
        " is of another), '*' for all",
    )
    create.add_argument(
        "--description",
        metavar="TEXT",
        type=by_rule(lambda given: domain_webhooks.webhook_description(given)),
        default="",
        help="what it is for",
    )
    add_sandbox(create)


def run_create(settings: Settings, chosen: Namespace) -> None:
    async def create(env: Environment) -> Signing:
        # The types are known once the kinds of the installation are.
        types = dict.fromkeys(map(domain_webhooks.webhook_type, chosen.types))
        values = {"url": chosen.url, "types": tuple(types), "description": chosen.description}
        return await webhooks.create_webhook(env, values, audit.OPERATOR)

    try:
        made = prepared.in_environment(settings, chosen, create)
    except errors.BrokenRule as error:
        raise CommandError(f"argument --types: {error}", 2) from None
    except errors.Invalid as error:
        text = "; ".join(f"--{fault.field} {fault.message}" for fault in error.details)
        raise CommandError(text, 2) from None
    _show_secret(made, f"Webhook {made.webhook.id} is created: {made.webhook.url}", chosen)


def run_rotate_secret(settings: Settings, chosen: Namespace) -> None:
    made = prepared.in_environment(
        settings, chosen, lambda env: webhooks.rotate_secret(env, chosen.id, audit.OPERATOR)
    )
    text = f"Webhook {chosen.id} has a new secret."
    if made.webhook.former_secret is not None:
        text += " For 24 hours the old one signs too."
    _show_secret(made, text, chosen)


def _show_secret(made: Signing, text: str, chosen: Namespace) -> None:
    rotate = command_line(f"webhooks rotate-secret {made.webhook.id}", sandbox=chosen.sandbox)
    answer(
        contract_webhooks.webhook_with_secret(made.webhook, made.secret),
        f"{text}\n\n  secret   {made.secret}\n\nStore it now; it is not shown again.",
        as_json=chosen.json,
        lost=f"Webhook {made.webhook.id} has the new secret: {rotate} prints another.",
    )


def run_list(settings: Settings, chosen: Namespace) -> None:
    rows = prepared.in_environment(settings, chosen, lambda env: env[events_storage.Webhooks].all())
    answer([contract_webhooks.webhook_item(row) for row in rows], _table(rows), as_json=chosen.json)


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
    from msgspec.structs import asdict

    async def read(env: Environment) -> list[tuple[DeliveryItem, Delivery]]:
        webhook = await webhooks.read_webhook(env, chosen.id)
        page = await env[events_storage.Deliveries].page(webhook.id, offset=0, limit=chosen.limit)
        return [(contract_webhooks.delivery_item(row, webhook), row) for row in page.rows]

    found = prepared.in_environment(settings, chosen, read)
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
    prepared.in_environment(
        settings,
        chosen,
        lambda env: webhooks.redeliver(env, chosen.id, chosen.delivery_id, audit.OPERATOR),
    )
    facts = {"id": chosen.id, "delivery_id": chosen.delivery_id}
    answer(facts, "It will be delivered again.", as_json=chosen.json)


def run_test(settings: Settings, chosen: Namespace) -> None:
    prepared.in_environment(
        settings, chosen, lambda env: webhooks.test_webhook(env, chosen.id, audit.OPERATOR)
    )
    deliveries = command_line(f"webhooks deliveries {chosen.id}", sandbox=chosen.sandbox)
    text = f"A running server sends a ping now. See the result with: {deliveries}"
    answer({"id": chosen.id}, text, as_json=chosen.json)


def run_enable(settings: Settings, chosen: Namespace) -> None:
    webhook = _switched(settings, chosen, enabled=True)
    text = f"Webhook {webhook.id} is enabled and receives events from now on."
    answer(contract_webhooks.webhook_item(webhook), text, as_json=chosen.json)


def run_disable(settings: Settings, chosen: Namespace) -> None:
    webhook = _switched(settings, chosen, enabled=False)
    text = f"Webhook {webhook.id} is disabled and receives no more events."
    answer(contract_webhooks.webhook_item(webhook), text, as_json=chosen.json)


def _switched(settings: Settings, chosen: Namespace, *, enabled: bool) -> Webhook:
    values = {"enabled": enabled}
    return prepared.in_environment(
        settings,
        chosen,
        lambda env: webhooks.change_webhook(env, chosen.id, values, audit.OPERATOR),
    )


def run_delete(settings: Settings, chosen: Namespace) -> None:
    if asks(chosen):
        found = prepared.in_environment(
            settings, chosen, lambda env: webhooks.read_webhook(env, chosen.id)
        )
        confirm(f"Delete webhook {found.id}, {plain(found.url)}?")
    prepared.in_environment(
        settings, chosen, lambda env: webhooks.delete_webhook(env, chosen.id, audit.OPERATOR)
    )
    answer({"id": chosen.id}, f"Webhook {chosen.id} is deleted.", as_json=chosen.json)
