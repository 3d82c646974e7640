"""The dashboard's pages of a kind: its list, its records, and what can be done with them."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from portico.core.errors import (
    BrokenRule,
    Conflict,
    Duplicate,
    Fault,
    Invalid,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    PorticoError,
    PreconditionFailed,
    Unavailable,
    Unreadable,
)
from portico.core.ids import parse_id
from portico.core.money import CURRENCIES
from portico.core.text import counted
from portico.core.words import FORMATS, Format
from portico.data.search import query_words
from portico.environment import Environment
from portico.resource.changes import change_record, create_record, delete_record, unchecked
from portico.resource.compiled import CREATED, Compiled
from portico.resource.fields import (
    BooleanField,
    ChoiceField,
    DecimalField,
    Field,
    ReferenceField,
    StatesField,
    TextField,
    default_of,
)
from portico.resource.file_rows import header, report
from portico.resource.files import columns_of, file_text
from portico.resource.inputs import (
    LONG,
    NUMBERS,
    PREFIX,
    as_price,
    cell,
    currency_field_of,
    currency_of,
    group_of,
    read_input,
    written,
)
from portico.resource.uploads import (
    MAX_BYTES,
    MAX_TOLD,
    MAX_WAITING,
    Upload,
    Uploads,
    begin_storing,
    discard,
    is_behind,
    is_lost,
    take_in,
)
from portico.web.conditions import entity_tag, require_match
from portico.web.envelope import Single, encode
from portico.web.messages import Reply
from portico.web.pages.forms import VERSION, Form, differences
from portico.web.pages.html import named
from portico.web.pages.list_files import as_file, format_asked
from portico.web.pages.notices import NOTICES
from portico.web.pages.paging import (
    SIZES,
    back_to_list,
    list_of,
    offset_of,
    page_of,
    pages_of,
    sort_of,
)
from portico.web.pages.search import Searched
from portico.web.pages.sent_once import fresh_key, sent_once
from portico.web.pages.site import ONCE, PageRoute, Visit, addressed

MOST_COLUMNS = 5
"""How many fields a list shows besides the first column."""

MOST_KNOWN = 200
"""How many values a field suggests; others can be typed."""

MOST_NAMED = 5
"""How many records a question names."""

_MOST_FAULTY = 20
"""The most faulty rows that the page of a file shows; the downloadable file has more."""

_MAX_SEARCH = 200
_CHANGED = "The page does not offer this change. Load it again."


class Filter(NamedTuple):
    """A filter of a list: its parameter and what its field in the form looks like."""

    name: str
    words: str
    field: Field
    options: Sequence[tuple[str, str]] = ()
    """The values to choose from and their names; none for a text field."""

    @property
    def is_state(self) -> bool:
        """Whether it is of states."""
        return self.field.sort == "states"


class Move(NamedTuple):
    """A change of records to a state: its name in forms, its button, and its consequence."""

    do: str
    words: str
    field: StatesField
    column: str
    state: str
    after: Collection[str]
    """The states of the records that it is offered for."""
    done: str = "changed"
    means: str = ""

    def for_several(self, what: str) -> str:
        """The button for several records."""
        return f"{self.words}{':' if self.done == 'changed' else ''} {what}"


class Asked(NamedTuple):
    """A query of the list, the column that was chosen to sort by, if any, and whether `asc` or
    `desc`; what the fields of its form show, and their faults."""

    query: Any
    sort: tuple[str, str] | None
    shown: Mapping[str, str]
    faults: Mapping[str, str]

    @property
    def chosen(self) -> Mapping[str, str]:
        """The parameters of the list without the page."""
        return {name: text for name, text in self.shown.items() if text}

    def address(self, **changed: object) -> str:
        """The query string of the same list with other parameters; empty ones are left out."""
        return urlencode({name: text for name, text in {**self.shown, **changed}.items() if text})

    def on(self, page: int) -> str:
        """The query string of a page of the same list."""
        return self.address(page=page if page > 1 else "")


class _Outcome(NamedTuple):
    """The outcome for one of several records; `why` says why it failed, empty if it did not."""

    id: int
    name: str
    why: str = ""
    gone: bool = False


class KindPages:
    """The pages of one kind."""

    def __init__(self, kind: Compiled) -> None:
        self.kind = kind
        self.path = kind.path
        self.many = kind.many.replace("-", " ")
        declared = [field for field in kind.kind.record.__fields__ if not field.derived]
        self.fields = declared
        self.heading = _heading(kind)
        self.columns = _columns(kind, self.heading)
        self.filters = [one for name in kind.kind.filters for one in _filters(kind.by_name[name])]
        self.parameters = (
            "search", *(one.name for one in self.filters), "sort", "order", "limit", "page"
        )  # fmt: skip
        self.moves = self.all_moves()
        self.editable = [field for field in declared if not field.fixed and field.sort != "states"]
        self.suggested = {
            PREFIX + name
            for name in kind.kind.filters
            if isinstance(field := kind.by_name[name], TextField) and field.high <= LONG
        }
        """The inputs that suggest the values which others have."""
        titles = [field.title.lower() for field in kind.searched]
        self.search_words = " or ".join(titles).capitalize() if len(titles) < 3 else "Search"
        headed = [self.heading, *self.columns] if self.heading else self.columns
        self.sorts = {
            one.name: (one.title, "number" if one.sort in NUMBERS else "") for one in headed
        }
        self.sorts[CREATED] = ("Created", "created")
        """The columns that sort a list: their titles and classes."""

    def all_moves(self) -> Sequence[Move]:
        """The changes of state that are offered."""
        kind = self.kind
        return [_move(kind, field, state) for field in kind.states for state in field.words]

    def routes(self) -> Sequence[PageRoute]:
        """The pages and the actions of their forms."""
        reads, writes, path = self.kind.reads, self.kind.writes, self.path
        found = [
            PageRoute("GET", path, self.show_all, reads),
            PageRoute("GET", f"{path}/{{id}}", self.show, reads),
            PageRoute("POST", f"{path}/{{id}}", self.move, writes),
            PageRoute("GET", f"{path}/new", self.show_new, writes),
            PageRoute("POST", f"{path}/new", self.create, writes),
            PageRoute("GET", f"{path}/{{id}}/edit", self.show_edit, writes),
            PageRoute("POST", f"{path}/{{id}}/edit", self.edit, writes),
            PageRoute("GET", f"{path}/several", self.ask_several, writes),
            PageRoute("POST", f"{path}/several", self.change_several, writes),
        ]
        if self.kind.kind.delete:
            found += [
                PageRoute("GET", f"{path}/delete", self.ask_delete, writes),
                PageRoute("POST", f"{path}/delete", self.delete, writes),
            ]
        if self.kind.kind.files:
            found += [
                PageRoute("GET", f"{path}/export", self.export, reads),
                PageRoute("GET", f"{path}/import", self.show_uploads, writes),
                PageRoute("POST", f"{path}/import", self.upload, writes, file_bytes=MAX_BYTES),
                PageRoute("GET", f"{path}/import/{{id}}", self.show_upload, writes),
                PageRoute("POST", f"{path}/import/{{id}}", self.import_upload, writes),
                PageRoute("GET", f"{path}/import/{{id}}/faults", self.download_faults, writes),
            ]
        return found

    def label(self, row: Any) -> str:
        """What a record is called."""
        text = written(self.heading, self.kind.stored(row, self.heading)) if self.heading else ""
        return named(text, row.id) if text.strip() else f"{self.kind.words.capitalize()} {row.id}"

    async def _search(self, env: Environment, text: str, most: int) -> Sequence[Any]:
        if not self.kind.searched or not query_words(text):
            return []
        query = self._query(search=text, limit=most)
        rows: Sequence[Any] = (await self.kind.store(env).listed(query, 0, None)).rows
        return rows

    @property
    def searched(self) -> Searched:
        """How the search over everything finds its records."""
        return Searched(
            self.kind.kind.title,
            self.path,
            self.kind.reads,
            get=lambda env, row_id: self.kind.store(env).get(row_id),
            search=self._search,
            label=self.label,
        )

    def _query(self, **values: Any) -> Any:
        """The query of a list; pages show every record unless something is chosen."""
        return self.kind.query(**{**dict.fromkeys(self.kind.chosen), **values})

    def _page(self, visit: Visit, template: str, title: str, **context: Any) -> Reply:
        return visit.page(
            template,
            title,
            kind=self.kind,
            path=self.path,
            heading=self.kind.kind.title,
            may_change=self.kind.writes in visit.request.caller.scopes,
            label=self.label,
            **context,
        )

    # The list.

    def _asked(self, visit: Visit) -> Asked:
        shown = {name: visit.sent(name).strip() for name in self.parameters if name != "page"}
        shown["search"] = shown["search"][:_MAX_SEARCH] if self.kind.searched else ""
        form = Form({one.name: [shown[one.name]] for one in self.filters})
        values: dict[str, Any] = {}
        for one in self.filters:
            values[one.name] = form.optional(one.name, _filter_rule(one, values))
        sort = sort_of(visit, self.sorts)
        shown["sort"], shown["order"] = sort or ("", "")
        if self.kind.searched:
            values["search"] = shown["search"]
        limit = visit.sent_number("limit")
        if limit in SIZES:
            values["limit"] = limit
        shown["limit"] = str(limit) if limit in SIZES[1:] else ""
        return Asked(self._query(**values), sort, shown, form.faults)

    async def show_all(self, visit: Visit) -> Reply:
        """A page of the list; one beyond the last gives the last."""
        asked, records = self._asked(visit), self.kind.store(visit.env)
        query, number, rows, total, exact = asked.query, 1, [], 0, True
        if not asked.faults:
            number, found = await page_of(
                visit,
                lambda page: records.listed(query, offset_of(page, query.limit), None, asked.sort),
                query.limit,
            )
            rows, total, exact = found.rows, found.total, found.exact
        scopes = visit.request.caller.scopes
        return self._page(
            visit,
            "records.html",
            self.kind.kind.title,
            rows=[
                (row, [cell(self.kind, one, row, scopes) for one in self.columns]) for row in rows
            ],
            head=self.heading,
            filters=self.filters,
            known={
                one.name: await records.known(one.field, MOST_KNOWN)
                for one in self.filters
                if PREFIX + one.name in self.suggested
            },
            search_words=self.search_words,
            sorted=[(name, *words) for name, words in self.sorts.items()],
            sort=asked.sort or (None if asked.shown["search"] else self.kind.sorted_by(query)),
            moves=self.moves,
            total=total,
            exact=exact,
            number=number,
            last=pages_of(total, query.limit),
            sizes=SIZES,
            asked=asked,
            filtered=any(asked.shown[one] for one in ("search", *(f.name for f in self.filters))),
            formats=FORMATS if self.kind.kind.files else (),
            what=counted(total, self.kind.words) if total == 1 else f"{total:,} {self.many}",
        )

    async def export(self, visit: Visit) -> Reply:
        """All records of the same query, the oldest first."""
        asked, form = self._asked(visit), format_asked(visit)
        if asked.faults:
            raise Unreadable("The file cannot be created. Correct the filters, then export again.")
        return as_file(visit, self.kind.many, form, self.file(visit, asked, form))

    async def file(self, visit: Visit, asked: Asked, form: Format) -> AsyncGenerator[bytes, None]:
        """The records of a query as a file."""
        if head := header(form, columns_of(self.kind)):
            yield head
        async for batch in self.kind.store(visit.env).matching(asked.query):
            yield file_text(self.kind, form, batch)

    # Imports: a file is uploaded, checked, then stored.

    async def show_uploads(self, visit: Visit) -> Reply:
        """The form that sends a file, and the files that were sent."""
        # Twice as many as may wait: the others may have been lost with their host.
        uploads = visit.env[Uploads]
        latest = await uploads.latest(visit.user.id, self.kind.many, 2 * MAX_WAITING)
        most, title = MAX_BYTES >> 20, f"Import {self.many}"
        return self._page(visit, "uploads.html", title, many=self.many, uploads=latest, most=most)

    async def upload(self, visit: Visit) -> Reply:
        """Takes a file in."""
        form = visit.form
        if form.file is None or not form.file.name:
            raise Invalid("Choose a file.")
        try:
            upload = await take_in(
                visit.env,
                visit.user.id,
                self.kind.many,
                form.file.name,
                form.file.chunks(),
                await visit.by(),
                updates=lambda: form.has("update"),  # a field behind the file
            )
        except (Unreadable, PayloadTooLarge) as error:
            raise Invalid(error.message) from error
        return visit.go(f"{self.path}/import/{upload.id}")

    async def _upload(self, visit: Visit) -> Upload:
        upload = await visit.env[Uploads].get(visit.request.resource_id)
        own = upload is not None and upload.account_id == visit.user.id
        if upload is None or not own or upload.kind != self.kind.many:
            raise NotFound("This import no longer exists: files are kept for one day.")
        return upload

    async def show_upload(self, visit: Visit) -> Reply:
        """The progress of a file, or the outcome."""
        upload, env = await self._upload(visit), visit.env
        rejected = await env[Uploads].rejected(upload.id) if upload.faulty else []
        return self._page(
            visit,
            "upload.html",
            upload.name,
            many=self.many,
            upload=upload,
            rejected=rejected[:_MOST_FAULTY],
            told=MAX_TOLD,
            behind=await is_behind(env, upload),
            lost=await is_lost(env, upload),
        )

    async def import_upload(self, visit: Visit) -> Reply:
        """Has a file stored, or discards it."""
        upload, by = await self._upload(visit), await visit.by()
        if visit.form.text("do") == "discard":
            await discard(visit.env, upload.id, visit.user.id, by)
            return visit.go(f"{self.path}/import", done="import-discarded")
        await begin_storing(visit.env, upload.id, visit.user.id, by)
        return visit.go(f"{self.path}/import/{upload.id}")

    async def download_faults(self, visit: Visit) -> Reply:
        """The faulty rows as CSV."""
        upload = await self._upload(visit)
        return Reply(
            200,
            report(await visit.env[Uploads].rejected(upload.id)),
            [
                ("content-type", "text/csv; charset=utf-8; header=present"),
                ("content-disposition", f'attachment; filename="faulty-rows-{upload.id}.csv"'),
                ("cache-control", "no-store"),
            ],
        )

    # One record.

    async def _row(self, visit: Visit, row_id: int) -> Any:
        row = await self.kind.store(visit.env).get(row_id)
        if row is None:
            raise NotFound(f"There is no {self.kind.words} {row_id}. It may have been deleted.")
        return row

    async def show(self, visit: Visit) -> Reply:
        """A record with all its fields."""
        row = await self._row(visit, visit.request.resource_id)
        scopes = visit.request.caller.scopes
        cells = [cell(self.kind, field, row, scopes) for field in self.fields]
        return self._page(
            visit,
            "record.html",
            self.label(row),
            row=row,
            facts=[one for one in cells if not one.is_long],
            sections=[
                (one, _inner(field))
                for one, field in zip(cells, self.fields, strict=True)
                if one.is_long
            ],
            moves=[one for one in self.moves if _state(row, one) in one.after],
            editable=bool(self.editable),
            came_from=list_of(visit, self.parameters),
        )

    async def _carry_out(self, visit: Visit, row_id: int, move: Move | None) -> None:
        """Changes the state of a record, or deletes it if no move is given."""
        by = await visit.by()
        if move is None:
            await delete_record(visit.env, self.kind, row_id, unchecked, by)
        else:
            values, check = {move.field.name: move.state}, partial(self._check_move, move)
            await change_record(visit.env, self.kind, row_id, values, check, by)

    def _check_move(self, move: Move, row: Any) -> None:
        """Raises `Conflict` if the state, perhaps changed meanwhile, is of another button. What
        may not follow it at all, the kind refuses."""
        state = _state(row, move)
        if _refuses(row, move) and move.field.follow(state, move.state) is None:
            instead = [one.words for one in self.moves if _state(row, one) in one.after]
            raise Conflict(f"It is {state}. Use {' or '.join(instead)} instead.")

    def _move(self, name: str) -> Move:
        move = next((one for one in self.moves if one.do == name), None)
        if move is None:
            raise Unreadable(_CHANGED)
        return move

    async def move(self, visit: Visit) -> Reply:
        """Changes the state of a record."""
        move, row_id = self._move(visit.form.text("do")), visit.request.resource_id
        try:
            await self._carry_out(visit, row_id, move)
        except (Invalid, Duplicate) as error:
            raise Conflict(_reason(error)) from error
        back = list_of(visit, self.parameters)
        return visit.go(f"{self.path}/{row_id}", done=self._done(move.done), **back)

    async def ask_delete(self, visit: Visit) -> Reply:
        """Asks whether to delete a record."""
        row, back = await self._row(visit, visit.sent_id()), list_of(visit, self.parameters)
        return visit.asks(
            f"Delete {self.label(row)}?",
            "This cannot be undone.",
            words=f"Delete {self.kind.words}",
            danger=True,
            action=f"{self.path}/delete",
            back=(addressed(f"{self.path}/{row.id}", back), self.label(row)),
            id=row.id,
            **back,
        )

    async def delete(self, visit: Visit) -> Reply:
        """Deletes a record."""
        await self._carry_out(visit, visit.sent_id(), None)
        return visit.go(
            self.path, **back_to_list(visit, self.parameters), done=self._done("deleted")
        )

    # Several at once.

    def _chosen(self, visit: Visit) -> tuple[Move | None, list[int], dict[str, str]]:
        """The move, None to delete, the selected records, and the list that they were selected
        from. Raises `Unreadable`."""
        name = visit.sent("do")
        is_deletion = name == "delete" and self.kind.kind.delete
        move = None if is_deletion else self._move(name)
        texts = visit.sent("ids").split(",") if visit.sent("ids") else visit.sent_all("id")
        ids = list(dict.fromkeys(parse_id(text) for text in texts))
        if not 0 < len(ids) <= SIZES[-1]:
            raise Unreadable(f"Select 1 to {SIZES[-1]} {self.many}.")
        return move, ids, back_to_list(visit, self.parameters)

    def _counted(self, count: int) -> str:
        return f"{count} {self.kind.words if count == 1 else self.many}"

    async def ask_several(self, visit: Visit) -> Reply:
        """Asks whether to change or delete the selected records."""
        move, ids, back = self._chosen(visit)
        records = self.kind.store(visit.env)
        found = [(row_id, await records.get(row_id)) for row_id in ids]
        names = [
            self.label(row) if row else f"{self.kind.words.capitalize()} {row_id}"
            for row_id, row in found[:MOST_NAMED]
        ]
        more = f", and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
        what = self._counted(len(ids))
        words = move.for_several(what) if move else f"Delete {what}"
        refused = [_state(row, move) for _, row in found if move and row and _refuses(row, move)]
        means = move.means if move else "This cannot be undone."
        lines = [", ".join(names) + more, *([means] if means else [])]
        if refused:
            they = "it is" if len(refused) == 1 else "they are"
            states = " or ".join(dict.fromkeys(refused))
            lines.append(f"{self._counted(len(refused))} will be skipped: {they} {states}.")
        return visit.asks(
            f"{words}?",
            *lines,
            words=words,
            danger=move is None,
            action=f"{self.path}/several",
            back=(addressed(self.path, back), self.kind.kind.title),
            do=visit.sent("do"),
            ids=",".join(map(str, ids)),
            list=urlencode(back),
        )

    async def _outcome(self, visit: Visit, row_id: int, move: Move | None) -> _Outcome:
        row = await self.kind.store(visit.env).get(row_id)
        name = self.label(row) if row else f"{self.kind.words.capitalize()} {row_id}"
        try:
            await self._carry_out(visit, row_id, move)
        except NotFound:
            return _Outcome(row_id, name, "It has been deleted since.", gone=True)
        except (Conflict, Duplicate, Invalid, PermissionDenied, Unavailable) as error:
            return _Outcome(row_id, name, _reason(error))
        return _Outcome(row_id, name, gone=move is None)

    async def change_several(self, visit: Visit) -> Reply:
        """Changes each record by itself. Failures are reported; the rest is done."""
        move, ids, back = self._chosen(visit)
        outcomes = [await self._outcome(visit, row_id, move) for row_id in ids]
        done = sum(not one.why for one in outcomes)
        deed = move.done if move else "deleted"
        if done == len(ids):
            return visit.go(self.path, **back, done=self._done(deed, several=True), count=str(done))
        were = "was" if 1 in {done, len(ids)} else "were"
        return self._page(
            visit,
            "records_results.html",
            f"{done} of {self._counted(len(ids))} {were} {deed}",
            outcomes=outcomes,
            done_words=deed.capitalize(),
            back=urlencode(back),
        )

    # Forms.

    async def _form_page(
        self, visit: Visit, title: str, row: Any, *, status: int = 200, **context: Any
    ) -> Reply:
        fields = self.editable if row else self.fields
        for name in visit.form.faults:  # a rule may refuse a field that the form does not have
            if name.startswith(PREFIX) and not any(_is_of(field, name) for field in fields):
                words = name.removeprefix(PREFIX).replace("_", " ").capitalize()
                visit.form.refused = f"{words}: {visit.form.fault(name)}"
        inputs = [self._input(visit, field, row) for field in fields]
        for one in inputs:
            one["known"] = ()
            if one["name"] in self.suggested:
                field = self.kind.by_name[one["name"].removeprefix(PREFIX)]
                one["known"] = await self.kind.store(visit.env).known(field, MOST_KNOWN)
        return self._page(
            visit,
            "record_form.html",
            title,
            **{
                "status": status,
                "row": row,
                "inputs": inputs,
                "first": PREFIX + fields[0].name if fields else "",
                "added": visit.form.text("add"),
                "hidden": {},
                "came_from": list_of(visit, self.parameters),
                "meanwhile_differences": None,
                **context,
            },
        )

    def _input(self, visit: Visit, field: Field, row: Any) -> dict[str, Any]:
        """What the template needs of a field's input."""
        stored = self.kind.stored(row, field) if row else default_of(field)
        name = PREFIX + field.name
        made = {
            "name": name,
            "title": field.title,
            "hint": field.about or _hint(field),
            "required": field.required or not (field.optional or _may_be_empty(field)),
            "sort": field.sort,
        }
        if group := group_of(field):
            stored_rows = [] if stored is None else group.texts(stored)
            sent = group.sent(visit.form)
            count = sent + (visit.form.text("add") == name) if sent else len(stored_rows) + 1
            count = min(count, group.most)
            blank = [[""] * len(group.columns)] * group.most
            return made | {
                "group": [
                    [
                        (input_name, _inner_title(column_name, inner), text)
                        for input_name, (column_name, inner), text in zip(
                            group.inputs(number + 1), group.columns, values, strict=True
                        )
                    ]
                    for number, values in enumerate([*stored_rows, *blank][:count])
                ],
                "most": group.most,
            }
        if field.sort == "money":
            value = written(field, stored, currency_of(self.kind, row) if row else "")
        else:
            value = written(field, stored)
        return made | {
            "value": value,
            "options": _options(field),
            "long": isinstance(field, TextField) and field.high > LONG,
            "type": {"email": "email", "url": "url", "date": "date"}.get(field.sort, "text"),
            "mode": "decimal"
            if isinstance(field, DecimalField)
            else "numeric"
            if field.json == "integer"
            else "",
        }

    def _values(self, form: Form, fields: Sequence[Field]) -> dict[str, Any]:
        """The stored values of a form. Raises `Invalid`."""
        values = {}
        priced = currency_field_of(self.kind)
        code = form.text(PREFIX + priced.name) if priced else ""
        for field in fields:
            group = group_of(field)
            name = PREFIX + field.name
            values[field.name] = group.read(form) if group else read_input(form, field, name, code)
        form.check()
        return values

    async def show_new(self, visit: Visit) -> Reply:
        """The form of a new record."""
        key = visit.form.shown(ONCE, fresh_key(visit))
        return await self._form_page(visit, f"New {self.kind.words}", None, hidden={ONCE: key})

    async def create(self, visit: Visit) -> Reply:
        """Creates a record. A button that adds a row saves nothing."""
        form = visit.form
        if form.text("add"):
            return await self.show_new(visit)
        values = self._values(form, self.fields)
        if not form.text(ONCE):
            raise Unreadable("This form is incomplete. Load the page again.")
        try:
            return await sent_once(
                visit,
                lambda by: create_record(visit.env, self.kind, values, by),
                lambda row: visit.go(f"{self.path}/{row.id}", done=self._done("created")),
            )
        except (Invalid, Duplicate) as error:
            raise _of_inputs(error) from error

    def _done(self, deed: str, *, several: bool = False) -> str:
        """The name of the notice that something was done to a record, or to `several`."""
        own = f"{self.kind.many if several else self.kind.noun}-{deed}"
        return own if own in NOTICES else f"record{'s' if several else ''}-{deed}"

    def _tag(self, row: Any) -> str:
        return entity_tag(encode(Single(self.kind.body(row))))

    async def show_edit(self, visit: Visit) -> Reply:
        """The form of a record. A refused form keeps the version that it started from."""
        try:
            row = await self._row(visit, visit.request.resource_id)
        except NotFound:
            if not visit.form.text(VERSION):
                raise
            return await self._gone(visit)
        version = visit.form.shown(VERSION, self._tag(row))
        title = f"Edit {self.kind.words}"
        return await self._form_page(visit, title, row, hidden={VERSION: version})

    async def edit(self, visit: Visit) -> Reply:
        """Changes a record. A button that adds a row saves nothing."""
        form, row_id = visit.form, visit.request.resource_id
        if form.text("add"):
            return await self.show_edit(visit)
        values = self._values(form, self.editable)

        def check(row: Any) -> None:
            require_match(form.text(VERSION), encode(Single(self.kind.body(row))))

        try:
            by = await visit.by()
            row = await change_record(visit.env, self.kind, row_id, values, check, by)
        except PreconditionFailed:
            found = await self.kind.store(visit.env).get(row_id)
            return await (
                self._gone(visit) if found is None else self._meanwhile(visit, found, values)
            )
        except NotFound:
            return await self._gone(visit)
        except (Invalid, Duplicate) as error:
            raise _of_inputs(error) from error
        done = "nothing-changed" if form.text(VERSION) == self._tag(row) else self._done("changed")
        return visit.go(f"{self.path}/{row_id}", done=done, **list_of(visit, self.parameters))

    async def _meanwhile(self, visit: Visit, row: Any, mine: Mapping[str, Any]) -> Reply:
        """The form again, beside the values stored meanwhile. Sent once more, it overwrites
        them."""
        theirs = self._compared(row)
        ours = self._compared(self.kind.changed(row, mine))
        return await self._form_page(
            visit,
            f"Edit {self.kind.words}",
            row,
            status=412,
            hidden={VERSION: self._tag(row)},
            state=self.kind.stored(row, self.kind.states[0]) if self.kind.states else "",
            meanwhile_differences=differences(theirs, ours),
        )

    def _compared(self, row: Any) -> dict[str, str]:
        """The values of a row as the page compares them, by the titles of their fields."""
        code = currency_of(self.kind, row)
        made = {}
        for field in self.editable:
            stored = self.kind.stored(row, field)
            text = written(field, stored, code)
            made[field.title] = (
                f"{text} {code}".rstrip() if field.sort == "money" and text else text
            )
        return made

    async def _gone(self, visit: Visit) -> Reply:
        """The form of a new record, filled in with the values for one that was deleted
        meanwhile."""
        visit.form.refused = (
            f"This {self.kind.words} was deleted while you were editing it, so nothing was saved."
            " What you entered is still here: you can create a new one with it."
        )
        hidden = {ONCE: fresh_key(visit)}
        title = f"New {self.kind.words}"
        return await self._form_page(visit, title, None, status=404, hidden=hidden)


@cache
def pages(kind: Compiled) -> KindPages:
    """The pages of a kind."""
    return KindPages(kind)


_HINTS = {
    "moment": "In UTC, such as 2026-01-31T08:15:30Z.",
    "texts": "Names with texts. Empty rows are ignored.",
    "items": "Empty rows are ignored.",
}


def _hint(field: Field) -> str:
    if isinstance(field, ReferenceField):
        return f"The ID of one of the {field.to.replace('-', ' ')}."
    return _HINTS.get(field.sort, "")


def _heading(kind: Compiled) -> Field | None:
    """The field that names a record: the first that is searched, else the first short text."""
    texts = [field for field in kind.listed if isinstance(field, TextField) and field.high <= LONG]
    searched = [field for field in texts if field.search]
    return next(iter([*searched, *texts]), None)


def _columns(kind: Compiled, heading: Field | None) -> list[Field]:
    """The fields that a list shows besides the heading: first states, then what it can be filtered
    or sorted by, then others; in the order of the declaration."""
    wanted = {*kind.kind.filters, *kind.kind.sorts}
    able = [
        field
        for field in kind.listed
        if field is not heading
        and field.sortable
        and not field.derived
        and not (isinstance(field, TextField) and field.high > LONG)
    ]
    if any(field.sort == "money" for field in able):
        able = [field for field in able if field.sort != "currency"]
    ranked = sorted(able, key=lambda field: (field.sort != "states", field.name not in wanted))
    shown = ranked[:MOST_COLUMNS]
    return [field for field in kind.listed if field in shown]


def _filters(field: Field) -> list[Filter]:
    if field.ranged:
        return [
            Filter(f"min_{field.name}", f"{field.title} from", field),
            Filter(f"max_{field.name}", f"{field.title} to", field),
        ]
    return [Filter(field.name, field.title, field, _options(field))]


def _filter_rule(one: Filter, values: Mapping[str, Any]) -> Any:
    """Reads a filter's value; an upper bound must not be below its lower one."""
    rule = as_price if one.field.sort == "money" else one.field.parameter()
    low = values.get(f"min_{one.field.name}") if one.name.startswith("max_") else None

    def read(text: str) -> Any:
        value = rule(text)
        if low is not None and value < low:
            raise BrokenRule("must not be below the other bound")
        return value

    return read


def _options(field: Field) -> list[tuple[str, str]]:
    """The values of a field to choose from, with their names; none if any can be written."""
    if isinstance(field, ChoiceField):
        return [(word, word[:1].upper() + word[1:]) for word in field.words]
    if isinstance(field, BooleanField):
        return [("true", "Yes"), ("false", "No")]
    if field.sort == "currency":
        return [(code, code) for code in sorted(CURRENCIES)]
    return []


def _may_be_empty(field: Field) -> bool:
    return isinstance(field, TextField) and field.low == 0


def _move(kind: Compiled, field: StatesField, state: str) -> Move:
    what = f"{field.title.lower()} to " if len(kind.states) > 1 else "to "
    after = [old for old, then in field.following.items() if state in then and old != state]
    words = f"Set {what}{state}"
    return Move(f"{field.name}:{state}", words, field, kind.column(field.name), state, after)


def _state(row: Any, move: Move) -> str:
    state: str = getattr(row, move.column)
    return state


def _refuses(row: Any, move: Move) -> bool:
    """Whether a move is not for the state of a record; to the state that it has is no move."""
    return _state(row, move) not in (move.state, *move.after)


def _inner(field: Field) -> list[tuple[str, str]]:
    """The titles and the sorts of the values in each row of a field."""
    group = group_of(field)
    return [(_inner_title(name, one), one.sort) for name, one in group.columns] if group else []


def _inner_title(name: str, field: Field) -> str:
    return field.title if field.name else name.capitalize()


def _is_of(field: Field, name: str) -> bool:
    return name == PREFIX + field.name or name.startswith(f"{PREFIX}{field.name}-")


def _of_inputs(error: Invalid | Duplicate) -> PorticoError:
    """The error, with the faults at the inputs of their fields."""
    faults = [Fault(PREFIX + fault.field, fault.message) for fault in error.details]
    return type(error)(error.message, faults)


def _reason(error: PorticoError) -> str:
    """Why something was refused, in a sentence."""
    messages = [
        f"{fault.field.replace('_', ' ').capitalize()} {fault.message}." for fault in error.details
    ]
    return " ".join(messages) or error.message
