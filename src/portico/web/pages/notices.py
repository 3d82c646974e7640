"""The notices that a page shows after an action. Addresses carry only their names, never text."""

import re
from typing import NamedTuple

_SEVERAL = re.compile("^The (product|record)s were")

NOTICES = {
    "access-ended": "That access has ended.",
    "application-revoked": "The application's access has ended.",
    "client-changed": "The client was changed.",
    "client-deleted": "The client was deleted, and its access to accounts has ended.",
    "client-registered": "The client is registered. It uses its client ID and PKCE, not a secret.",
    "email-asked": "We have sent a link to your new address. It works for 24 hours.",
    "device-allowed": "The device has access. You can close this window and go on there.",
    "device-denied": "The device was denied access. You can close this window.",
    "device-ended": "That device is signed out.",
    "factor-added": "The passkey was added.",
    "factor-removed": "The second factor was removed.",
    "factor-renamed": "The second factor was renamed.",
    "factors-reset": "The user's second factors were removed.",
    "account-deleted": "Your account was deleted.",
    "account-made": "Your account is ready. Sign in.",
    "form-lost": "You were signed out, so nothing was sent. Sign in again, then fill it in again.",
    "import-discarded": "The file was discarded.",
    "invitation-revoked": "The invitation was revoked. Its link no longer works.",
    "invited": "The invitation was sent.",
    "key-revoked": "The key was revoked and no longer works.",
    "link-written": "This server does not send e-mail. Ask the server operator for the link, which"
    " works for 24 hours.",
    "not-decided": "You were signed out, so access was neither allowed nor denied. Sign in again to"
    " decide.",
    "nothing-changed": "Nothing was saved, because nothing was changed.",
    "others-ended": "You are signed out everywhere else.",
    "password-changed": "Your password was changed. You are signed out everywhere else.",
    "password-reset": "Your password was changed. Sign in with the new one.",
    "product-activated": "The product is active.",
    "product-archived": "The product is archived.",
    "product-changed": "The product was changed.",
    "product-created": "The product was created.",
    "product-deleted": "The product was deleted.",
    "product-published": "The product is active.",
    "products-activated": "The products were activated.",
    "products-archived": "The products were archived.",
    "products-deleted": "The products were deleted.",
    "products-published": "The products were published.",
    "profile-saved": "Your profile was saved.",
    "provider-linked": "The provider is linked. You can sign in with it from now on.",
    "provider-unlinked": "The provider is unlinked. You can no longer sign in with it.",
    "record-changed": "The record was changed.",
    "record-created": "The record was created.",
    "record-deleted": "The record was deleted.",
    "records-changed": "The records were changed.",
    "records-deleted": "The records were deleted.",
    "sandbox-filled": "The sandbox is filled with samples.",
    "sign-in-again": "This took too long or was already completed. Sign in again.",
    "signed-out": "You are signed out.",
    "user-changed": "The user was changed.",
    "user-created": "The user was created.",
    "user-deleted": "The user was deleted.",
    "user-resumed": "The user is no longer suspended. Their API keys work again.",
    "user-signed-out": "The user is signed out everywhere.",
    "user-suspended": "The user is suspended and cannot sign in or use the API.",
    "verified-before": "Your e-mail is already verified.",
    "verification-sent": "We have sent you a link. It works for 24 hours.",
    "webhook-changed": "The webhook was changed.",
    "webhook-deleted": "The webhook was deleted. Nothing more is sent to it.",
    "webhook-disabled": "The webhook is disabled. Nothing more is sent to it.",
    "webhook-enabled": "The webhook is enabled and receives new events.",
    "webhook-resent": "The event was sent again. The result appears below in a moment.",
    "webhook-tested": "A test event was sent. The result appears below in a moment.",
}


_COLOURS = {
    "form-lost": "warn",
    "link-written": "warn",
    "not-decided": "warn",
    "nothing-changed": "",
    "sign-in-again": "warn",
}
"""The colours of notices that do not report a success."""


class Notice(NamedTuple):
    """The text of a notice and its colour."""

    words: str
    colour: str


def notice(name: str, count: int | None) -> Notice | None:
    """The notice of this name, with the number of records if `count` is given; None for an unknown
    name."""
    words = NOTICES.get(name)
    if words is None:
        return None
    if count is not None:
        counted = r"1 \1 was" if count == 1 else rf"{count:,} \1s were"
        words = _SEVERAL.sub(counted, words)
    return Notice(words, _COLOURS.get(name, "good"))
