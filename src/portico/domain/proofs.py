"""How users proved who they are, in the terms of RFC 8176 and OpenID Connect Core §2."""

from typing import NamedTuple

Methods = tuple[str, ...]
"""Values of `amr`, in their order."""

BY_PASSWORD: Methods = ("pwd",)
BY_CODE: Methods = ("pwd", "otp", "mfa")
"""By password and a code of an authenticator app, or a recovery code."""
BY_PROVIDER: Methods = ()
"""By another provider; Portico itself has checked nothing."""
BY_PROVIDER_AND_CODE: Methods = ("otp", "mfa")


class Proof(NamedTuple):
    """How a user signed in, and when (epoch milliseconds)."""

    amr: Methods
    at: int


BY_PASSKEY: Methods = ("pop", "user", "mfa")

LEVELS = ("1", "2")
"""The values of `acr`, the strongest last."""


def level(amr: Methods) -> str:
    """The `acr` of a proof: `2` for two factors, else `1`."""
    return "2" if "mfa" in amr else "1"
