"""What the reference shows of the Python client: the body of each function is the example of the
operation that it is named after."""

from decimal import Decimal

from portico_client import Client, Image, Login, OAuthApp, OAuthTokens, SessionLogin


def list_users(client: Client) -> None:
    for user in client.users.list(role="editor"):
        print(user.id, user.name)


def create_user(client: Client) -> None:
    user = client.users.create(
        name="Ada Lovelace",
        email="ada@example.com",
        password="Analytical1",
        role="editor",
    )
    print(user.id)


def read_me(client: Client) -> None:
    me = client.me()
    print(me.name, me.role)


def change_me(client: Client) -> None:
    me = client.update_me(name="Ada King", preferences={"theme": "dark"})
    print(me.name)


def read_user(client: Client) -> None:
    user = client.users.get(17)
    print(user.name, user.email)


def change_user(client: Client) -> None:
    user = client.users.update(17, name="Ada King", preferences={"theme": "dark"})
    print(user.name)


def delete_user(client: Client) -> None:
    client.users.delete(17)


def list_products(client: Client) -> None:
    for product in client.products.list(category="lighting", max_price=30):
        print(product.name, product.price)


def create_product(client: Client) -> None:
    product = client.products.create(
        name="Desk lamp",
        category="lighting",
        price=Decimal("24.5"),
        description="Warm light on a jointed arm.",
        stock_quantity=12,
        status="active",
        images=[Image("https://example.com/lamp.jpg", "The lamp, lit")],
        metadata={"colour": "brass"},
    )
    print(product.id)


def read_product(client: Client) -> None:
    product = client.products.get(17)
    print(product.name, product.price)


def change_product(client: Client) -> None:
    product = client.products.update(17, price=Decimal("19.95"), stock_quantity=3)
    print(product.price)


def delete_product(client: Client) -> None:
    client.products.delete(17)


def list_api_keys(client: Client) -> None:
    for key in client.api_keys.list():
        print(key.name, key.hint)


def create_api_key(client: Client) -> None:
    made = client.api_keys.create(
        name="Storefront",
        type="live",
        scopes=["read:products"],
        networks=["203.0.113.0/24"],
    )
    print(made.key)  # shown this once


def read_api_key(client: Client) -> None:
    key = client.api_keys.get(17)
    print(key.name, key.last_used_at)


def revoke_api_key(client: Client) -> None:
    client.api_keys.revoke(17)


def rotate_key(client: Client) -> None:
    rotated = client.api_keys.rotate(switch=True)
    print(rotated.key)  # the one before works for 24 hours more


def create_session() -> None:
    ada = SessionLogin("ada@example.com", "Analytical1")
    client = Client(auth=ada)
    print(client.me().name)


def delete_session() -> None:
    ada = SessionLogin("ada@example.com", "Analytical1")
    client = Client(auth=ada)
    print(client.me().name)
    client.logout()


def list_events(client: Client) -> None:
    for event in client.events.list(type="product.*"):
        print(event.id, event.type)


def stream_events(client: Client) -> None:
    with client.events.stream(type="product.*") as events:
        for event in events:
            print(event.id, event.type)


def list_webhooks(client: Client) -> None:
    for webhook in client.webhooks.list():
        print(webhook.url, webhook.status)


def create_webhook(client: Client) -> None:
    webhook = client.webhooks.create(
        url="https://example.com/hooks", types=["product.*", "user.created"]
    )
    print(webhook.secret)  # shown this once


def read_webhook(client: Client) -> None:
    webhook = client.webhooks.get(17)
    print(webhook.url, webhook.status)


def change_webhook(client: Client) -> None:
    webhook = client.webhooks.update(17, types=["*"], status="enabled")
    print(webhook.types)


def delete_webhook(client: Client) -> None:
    client.webhooks.delete(17)


def rotate_secret(client: Client) -> None:
    webhook = client.webhooks.rotate_secret(17)
    print(webhook.secret)  # the one before signs for 24 hours more


def test_webhook(client: Client) -> None:
    client.webhooks.test(17)


def list_deliveries(client: Client) -> None:
    for delivery in client.webhooks.deliveries(17):
        print(delivery.type, delivery.status)


def redeliver(client: Client) -> None:
    client.webhooks.redeliver(17, 17)


def login() -> None:
    ada = Login("ada@example.com", "Analytical1")
    client = Client(auth=ada)
    print(client.me().name)


def logout() -> None:
    ada = Login("ada@example.com", "Analytical1")
    client = Client(auth=ada)
    print(client.me().name)
    client.logout()


def token(callback_url: str) -> None:
    app = OAuthApp("client_…", "ocs_…", redirect_uri="https://example.com/callback")
    begun = app.begin("openid read:products")
    # Send the browser to begun.url; it comes back to callback_url.
    tokens = app.complete(callback_url, begun)
    print(tokens.scopes)


def revoke(tokens: OAuthTokens) -> None:
    app = OAuthApp("client_…", "ocs_…", redirect_uri="https://example.com/callback")
    app.revoke(tokens)


def verify_credential(client: Client) -> None:
    found = client.verify(credential="sk_live_…", scope="read:products")
    print(found.valid, found.code)
