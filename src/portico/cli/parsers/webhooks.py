"""What can be typed behind `portico webhooks`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, read_by, ruled, take_sandbox

DEFAULT_LIMIT = 25


def add_to(commands: Commands) -> None:
    """Declares `portico webhooks …`."""
    webhooks = commands.noun("webhooks", "send events to addresses of yours, as they happen")
    _take_webhook(
        webhooks.verb(
            "create",
            "portico.cli.webhooks:run_create",
            "create a webhook and print its secret once",
            "It is sent what happens from then on. Its URL leads to a public address over https,"
            "\nunless webhooks_allow opens an exception.",
        )
    )
    take_sandbox(
        webhooks.verb("list", "portico.cli.webhooks:run_list", "list webhooks, oldest first")
    )
    _add_deliveries(webhooks)
    _of_one(
        webhooks,
        "test",
        "portico.cli.webhooks:run_test",
        "send a webhook an event of type ping, once",
    )
    _of_one(
        webhooks,
        "rotate-secret",
        "portico.cli.webhooks:run_rotate_secret",
        "give a webhook another secret and print it once",
        "For 24 hours the one before signs too, at most two do.",
    )
    _of_one(
        webhooks,
        "disable",
        "portico.cli.webhooks:run_disable",
        "send a webhook nothing any more, and drop what is pending",
    )
    _of_one(
        webhooks,
        "enable",
        "portico.cli.webhooks:run_enable",
        "send a webhook again what happens from now on",
    )
    _of_one(webhooks, "delete", "portico.cli.webhooks:run_delete", "delete a webhook")


def _add_deliveries(webhooks: Commands) -> None:
    """Declares what looks at deliveries."""
    deliveries = _of_one(
        webhooks,
        "deliveries",
        "portico.cli.webhooks:run_deliveries",
        "show what became of each event, newest first",
        "ANSWER is the status and the beginning of what the receiver answered at the last attempt,"
        "\nor why there was no answer.",
    )
    deliveries.add_argument(
        "--limit",
        metavar="N",
        type=read_by("portico.cli.values:limit"),
        default=DEFAULT_LIMIT,
        help="how many deliveries (default %(default)s)",
    )
    redeliver = _of_one(
        webhooks, "redeliver", "portico.cli.webhooks:run_redeliver", "send an event once more"
    )
    redeliver.add_argument(
        "delivery_id",
        metavar="DELIVERY",
        type=read_by("portico.cli.values:row_id"),
        help="its number, from portico webhooks deliveries",
    )


def _of_one(
    webhooks: Commands, name: str, run: str, summary: str, details: str = ""
) -> ArgumentParser:
    """A command on one webhook."""
    command = webhooks.verb(name, run, summary, details)
    command.add_argument(
        "id",
        metavar="ID",
        type=read_by("portico.cli.values:row_id"),
        help="its number, from portico webhooks list",
    )
    take_sandbox(command)
    return command


def _take_webhook(create: ArgumentParser) -> None:
    """Adds what is said of a new webhook."""
    create.add_argument(
        "--url",
        metavar="U",
        type=ruled("portico.domain.text:web_url"),
        required=True,
        help="where events are sent",
    )
    create.add_argument(
        "--types",
        metavar="T",
        type=ruled("portico.domain.webhooks:webhook_type"),
        nargs="+",
        action="extend",
        required=True,
        help="types of events, such as product.updated; 'product.*' for all of a noun, '*' for all",
    )
    create.add_argument(
        "--description",
        metavar="TEXT",
        type=ruled("portico.domain.webhooks:webhook_description"),
        default="",
        help="what it is for",
    )
    take_sandbox(create)
