"""Declares `portico webhooks`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, add_limit, add_sandbox, add_yes, by_function, by_rule

DEFAULT_LIMIT = 25


def add_to(commands: Commands) -> None:
    """Declares `portico webhooks …`."""
    webhooks = commands.noun("webhooks", "send events to your own URLs as they happen")
    _add_webhook_options(
        webhooks.verb(
            "create",
            "portico.cli.webhooks:run_create",
            "create a webhook and print its secret once",
            "It receives events from now on. Its URL must use https and a public address, unless"
            "\nwebhooks_allow allows an exception.",
        )
    )
    add_sandbox(
        webhooks.verb("list", "portico.cli.webhooks:run_list", "list webhooks, oldest first")
    )
    _add_deliveries(webhooks)
    _of_one(
        webhooks,
        "test",
        "portico.cli.webhooks:run_test",
        "send a test event (ping) to a webhook",
    )
    _of_one(
        webhooks,
        "rotate-secret",
        "portico.cli.webhooks:run_rotate_secret",
        "create a new secret for a webhook and print it once",
        "For 24 hours, deliveries are also signed with the old secret. At most two secrets sign.",
    )
    _of_one(
        webhooks,
        "disable",
        "portico.cli.webhooks:run_disable",
        "stop sending events to a webhook, and drop pending deliveries",
    )
    _of_one(
        webhooks,
        "enable",
        "portico.cli.webhooks:run_enable",
        "send a webhook new events again",
    )
    add_yes(_of_one(webhooks, "delete", "portico.cli.webhooks:run_delete", "delete a webhook"))


def _add_deliveries(webhooks: Commands) -> None:
    """Declares the commands on deliveries."""
    deliveries = _of_one(
        webhooks,
        "deliveries",
        "portico.cli.webhooks:run_deliveries",
        "show the deliveries of a webhook, newest first",
        "ANSWER is the status and the beginning of the receiver's response to the last attempt, or"
        "\nthe reason why there was none.",
    )
    add_limit(deliveries, "deliveries", DEFAULT_LIMIT)
    redeliver = _of_one(
        webhooks, "redeliver", "portico.cli.webhooks:run_redeliver", "send an event again"
    )
    redeliver.add_argument(
        "delivery_id",
        metavar="DELIVERY",
        type=by_function("portico.cli.values:row_id"),
        help="delivery ID from portico webhooks deliveries",
    )


def _of_one(
    webhooks: Commands, name: str, run: str, summary: str, details: str = ""
) -> ArgumentParser:
    """Declares a command on one webhook and returns its parser."""
    command = webhooks.verb(name, run, summary, details)
    command.add_argument(
        "id",
        metavar="ID",
        type=by_function("portico.cli.values:row_id"),
        help="webhook ID from portico webhooks list",
    )
    add_sandbox(command)
    return command


def _add_webhook_options(create: ArgumentParser) -> None:
    """Adds the options that describe a new webhook."""
    create.add_argument(
        "--url",
        metavar="U",
        type=by_rule("portico.domain.text:web_url"),
        required=True,
        help="URL to send events to",
    )
    create.add_argument(
        "--types",
        metavar="T",
        type=by_rule("portico.domain.webhooks:webhook_type"),
        nargs="+",
        action="extend",
        required=True,
        help="event types such as product.updated; 'product.*' for all of a kind (products.imported"
        " is of another), '*' for all",
    )
    create.add_argument(
        "--description",
        metavar="TEXT",
        type=by_rule("portico.domain.webhooks:webhook_description"),
        default="",
        help="what it is for",
    )
    add_sandbox(create)
