// The products API hand-written on Fastify and better-sqlite3, for comparison by script/bench.
//
// For these three routes it does what Portico does: API key by SHA-256, both rate-limit windows
// and their headers, request id, validation, exact total, ETag. It always takes the fastest correct
// way: verified keys and totals are cached as long as the data is unchanged, the ETag is a SHA-1 of
// the body, and there is no logging and no metrics.
//
//   node server.js DATABASE PORT [CERTIFICATE KEY]
'use strict'

const Database = require('better-sqlite3')
const {
  FREE, ID, LIST_COLUMNS, application, missing, permit, presented, remember, tellLimits, toFullBody, toPage
} = require('./application')
const schemas = require('./schemas')

const [databasePath, port, certificate, key] = process.argv.slice(2)

const db = new Database(databasePath, { fileMustExist: true })
db.pragma('journal_mode = WAL')
db.pragma('synchronous = FULL')
db.pragma('cache_size = -65536')

const sql = {
  key: db.prepare('SELECT account_id, scopes, per_minute, per_day, expires_at FROM api_keys WHERE key_hash = ?'),
  product: db.prepare(`SELECT ${LIST_COLUMNS}, images, metadata FROM products WHERE id = ?`),
  list: db.prepare(`SELECT ${LIST_COLUMNS} FROM products WHERE status = ? ORDER BY id DESC LIMIT ? OFFSET ?`),
  count: db.prepare('SELECT count(*) FROM products WHERE status = ?').pluck(),
  version: db.prepare('PRAGMA data_version').pluck(),
  insert: db.prepare(`INSERT INTO products (name, description, category, price, currency, stock_quantity,
    status, images, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', '{}', ?, ?)`)
}

// --- Callers -----------------------------------------------------------------------------------

function findCaller (authorization, now) {
  const sent = presented(authorization, now)
  return sent === undefined ? undefined : sent.caller ?? remember(sent.digest, sql.key.get(Buffer.from(sent.digest, 'base64')), now)
}

const windows = new Map()

function takeOne (name, plan, now, reply) {
  const minute = Math.floor(now / 60_000)
  const day = Math.floor(now / 86_400_000)
  let used = windows.get(name)
  if (used === undefined) windows.set(name, used = { minute, minuteCount: 0, day, dayCount: 0 })
  if (used.minute !== minute) { used.minute = minute; used.minuteCount = 0 }
  if (used.day !== day) { used.day = day; used.dayCount = 0 }
  const refused = used.minuteCount >= plan.per_minute || used.dayCount >= plan.per_day
  if (!refused) { used.minuteCount += 1; used.dayCount += 1 }
  tellLimits(reply, plan, now, used.minuteCount, used.dayCount, refused)
}

// --- Products ----------------------------------------------------------------------------------

const totals = new Map()
let totalsVersion = -1

// data_version moves when another connection writes, our own writes clear the totals themselves.
function totalOf (status) {
  const version = sql.version.get()
  if (version !== totalsVersion) { totals.clear(); totalsVersion = version }
  let total = totals.get(status)
  if (total === undefined) totals.set(status, total = sql.count.get(status))
  return total
}

function findProduct (id) {
  const row = ID.test(id) ? sql.product.get(Number(id)) : undefined
  if (row === undefined) throw missing(id)
  return toFullBody(row)
}

function createProduct (body) {
  const now = Date.now()
  const { lastInsertRowid } = sql.insert.run(body.name, body.description, body.category,
    Math.round(body.price * 10_000), body.currency, body.stock_quantity, body.status, now, now)
  totals.clear()
  return toFullBody(sql.product.get(lastInsertRowid))
}

// --- Application -------------------------------------------------------------------------------

const app = application(certificate, key)

app.addHook('onRequest', (request, reply, done) => {
  const now = Date.now()
  reply.header('X-Request-Id', request.id)
  const caller = findCaller(request.headers.authorization, now)
  try {
    takeOne(caller?.account_id ?? request.ip, caller ?? FREE, now, reply)
    permit(caller, request, reply)
  } catch (error) {
    return done(error)
  }
  done()
})

app.get('/v1/products/:id', { schema: schemas.getProduct, config: { scope: 'read:products' } }, (request, reply) => {
  reply.send({ data: findProduct(request.params.id) })
})

app.get('/v1/products', { schema: schemas.listProducts, config: { scope: 'read:products' } }, (request, reply) => {
  const { page, limit, status } = request.query
  const data = sql.list.all(status, limit, (page - 1) * limit)
  reply.send(toPage(data, totalOf(status), request.query))
})

app.post('/v1/products', { schema: schemas.createProduct, config: { scope: 'write:products' } }, (request, reply) => {
  const product = createProduct(request.body)
  reply.code(201).header('Location', `/v1/products/${product.id}`)
  reply.send({ data: product, message: 'Product created.' })
})

process.on('SIGTERM', () => app.close().then(() => db.close()))

app.listen({ host: '127.0.0.1', port: Number(port) })
