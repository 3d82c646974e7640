"""The engine of kinds: from one declaration to a table, shapes, routes, events, pages and commands.

`declared` has what a file says, `loading` reads the files and judges them, `compiled` makes of a
declaration all that serves requests, once at the start. `tables` keeps the database as declared,
`store` has the SQL, `changes` the use cases, `routes` the API.
"""
