"""What a page says after something was done: addresses carry the name alone, never the words."""

NOTICES = {
    "application-revoked": "The application's access has ended.",
    "client-changed": "The client was changed.",
    "client-deleted": "The client was deleted, and all that was granted to it has ended.",
    "device-ended": "That device is signed out.",
    "key-revoked": "The key was revoked. It fails from now on.",
    "others-ended": "You are signed out everywhere else.",
    "password-changed": "Your password was changed. You are signed out everywhere else.",
    "password-reset": "Your password was changed. Sign in with the new one.",
    "profile-saved": "Your profile was saved.",
    "signed-out": "You are signed out.",
    "user-changed": "The user was changed.",
    "user-created": "The user was created.",
    "user-deleted": "The user was deleted.",
    "user-signed-out": "The user is signed out everywhere.",
    "verification-sent": "A link is on its way to you. It holds for 24 hours.",
}
