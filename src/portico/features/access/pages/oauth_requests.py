"""What the pages have in common that OAuth clients send the browser to."""

from urllib.parse import parse_qsl

from portico.core.oauth import AuthorizationRefused
from portico.features.access.authorization import Parameters
from portico.web.messages import Reply
from portico.web.pages.site import Visit

MAX_PARAMETERS = 50


def sent_parameters(visit: Visit) -> Parameters:
    """The parameters in the address. Raises `AuthorizationRefused`."""
    try:
        return parse_qsl(
            visit.request.query_string,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise AuthorizationRefused("invalid_request", "The address cannot be read.") from None


def refusal_page(visit: Visit, refused: AuthorizationRefused) -> Reply:
    """Tell the user that the client's request is invalid (400); nothing is sent to the client."""
    return visit.page(
        "oauth_error.html",
        "Authorization failed",
        status=400,
        error=refused.error,
        message=refused.message,
    )
