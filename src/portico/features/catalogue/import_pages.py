"""Imports of products: upload a file, check it, then store it."""

from portico.core.errors import Invalid, NotFound, PayloadTooLarge, Unreadable
from portico.features.catalogue.rules import MAX_BYTES, MAX_TOLD, MAX_WAITING, Upload
from portico.features.catalogue.storage import Uploads
from portico.features.catalogue.uploads import begin_storing, discard, is_behind, is_lost, take_in
from portico.resource.file_rows import report
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit

_SHOWN = 20
"""The most faulty rows that the page shows; the downloadable file has more."""


async def show_form(visit: Visit) -> Reply:
    """GET /products/import."""
    # Twice as many as may wait: the others may have been lost with their host.
    latest = await visit.env[Uploads].latest(visit.user.id, 2 * MAX_WAITING)
    most = MAX_BYTES >> 20
    return visit.page("import.html", "Import products", uploads=latest, most=most)


async def send(visit: Visit) -> Reply:
    """POST /products/import."""
    form = visit.form
    if form.file is None or not form.file.name:
        raise Invalid("Choose a file.")
    try:
        upload = await take_in(
            visit.env,
            visit.user.id,
            form.file.name,
            form.file.chunks(),
            await visit.by(),
            updates=form.has("update"),
        )
    except (Unreadable, PayloadTooLarge) as error:
        raise Invalid(error.message) from error
    return visit.go(f"/products/import/{upload.id}")


async def _upload(visit: Visit) -> Upload:
    upload = await visit.env[Uploads].get(visit.request.resource_id)
    if upload is None or upload.account_id != visit.user.id:
        raise NotFound("This import no longer exists: files are kept for one day.")
    return upload


async def show(visit: Visit) -> Reply:
    """GET /products/import/{id}: the progress or the outcome."""
    upload = await _upload(visit)
    env = visit.env
    return visit.page(
        "import_one.html",
        upload.name,
        upload=upload,
        rejected=(await env[Uploads].rejected(upload.id))[:_SHOWN] if upload.faulty else [],
        told=MAX_TOLD,
        behind=await is_behind(env, upload),
        lost=await is_lost(env, upload),
    )


async def go_on(visit: Visit) -> Reply:
    """POST /products/import/{id}."""
    upload_id, account_id, by = visit.request.resource_id, visit.user.id, await visit.by()
    if visit.form.text("do") == "discard":
        await discard(visit.env, upload_id, account_id, by)
        return visit.go("/products/import", done="import-discarded")
    await begin_storing(visit.env, upload_id, account_id, by)
    return visit.go(f"/products/import/{upload_id}")


async def download_faults(visit: Visit) -> Reply:
    """GET /products/import/{id}/faults: the faulty rows as CSV."""
    upload = await _upload(visit)
    return Reply(
        200,
        report(await visit.env[Uploads].rejected(upload.id)),
        [
            ("content-type", "text/csv; charset=utf-8; header=present"),
            ("content-disposition", f'attachment; filename="faulty-rows-{upload.id}.csv"'),
            ("cache-control", "no-store"),
        ],
    )


PAGES = (
    PageRoute("GET", "/products/import", show_form, "write:products"),
    PageRoute("POST", "/products/import", send, "write:products", file_bytes=MAX_BYTES),
    PageRoute("GET", "/products/import/{id}", show, "write:products"),
    PageRoute("POST", "/products/import/{id}", go_on, "write:products"),
    PageRoute("GET", "/products/import/{id}/faults", download_faults, "write:products"),
)
