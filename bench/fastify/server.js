// The products API by hand on Fastify and better-sqlite3, for script/bench to compare with.
//
// It does for these three routes what Portico does: API key by SHA-256, both rate-limit windows
// and their headers, request id, validation, exact total, ETag. Where there was a choice it took
// the faster one that is still right: verified keys and totals are kept in memory as long as the
// data is unchanged, the ETag is a SHA-1 of the body, nothing is logged, no metrics are kept.
//
//   node server.js DATABASE PORT [CERTIFICATE KEY]
'use strict'

const crypto = require('node:crypto')
const fs = require('node:fs')
const Database = require('better-sqlite3')
const Fastify = require('fastify')
const schemas = require('./schemas')

const [databasePath, port, certificate, key] = process.argv.slice(2)

const db = new Database(databasePath, { fileMustExist: true })
db.pragma('journal_mode = WAL')
db.pragma('synchronous = FULL')
db.pragma('cache_size = -65536')

const LIST_COLUMNS = 'id, name, description, category, price, currency, stock_quantity, status, created_at, updated_at'
const sql = {
  key: db.prepare('SELECT account_id, scopes, per_minute, per_day, expires_at FROM api_keys WHERE key_hash = ?'),
  product: db.prepare(`SELECT ${LIST_COLUMNS}, images, metadata FROM products WHERE id = ?`),
  list: db.prepare(`SELECT ${LIST_COLUMNS} FROM products WHERE status = ? ORDER BY id DESC LIMIT ? OFFSET ?`),
  count: db.prepare('SELECT count(*) FROM products WHERE status = ?').pluck(),
  version: db.prepare('PRAGMA data_version').pluck(),
  insert: db.prepare(`INSERT INTO products (name, description, category, price, currency, stock_quantity,
    status, images, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', '{}', ?, ?)`)
}

class ApiError extends Error {
  constructor (statusCode, code, message, details = []) {
    super(message)
    this.statusCode = statusCode
    this.code = code
    this.details = details
  }
}

// --- Callers -----------------------------------------------------------------------------------

const KEY_SECONDS = 1
const KEYS_KEPT = 10_000
const callers = new Map()

function findCaller (authorization, now) {
  if (authorization === undefined || !authorization.startsWith('Bearer ')) return undefined
  const digest = crypto.hash('sha256', authorization.slice(7), 'base64')
  const known = callers.get(digest)
  if (known !== undefined && known.until > now) return known.caller
  const caller = sql.key.get(Buffer.from(digest, 'base64'))
  if (caller === undefined || (caller.expires_at !== null && caller.expires_at <= now)) {
    callers.delete(digest)
    return undefined
  }
  caller.scopes = new Set(caller.scopes.split(' '))
  if (callers.size >= KEYS_KEPT) callers.clear()
  callers.set(digest, { caller, until: now + KEY_SECONDS * 1000 })
  return caller
}

// --- Rate limits -------------------------------------------------------------------------------

const FREE = { per_minute: 30, per_day: 1000 }
const windows = new Map()

function takeOne (name, plan, now, reply) {
  const minute = Math.floor(now / 60_000)
  const day = Math.floor(now / 86_400_000)
  let used = windows.get(name)
  if (used === undefined) windows.set(name, used = { minute, minuteCount: 0, day, dayCount: 0 })
  if (used.minute !== minute) { used.minute = minute; used.minuteCount = 0 }
  if (used.day !== day) { used.day = day; used.dayCount = 0 }

  const minuteSpent = used.minuteCount >= plan.per_minute
  const daySpent = used.dayCount >= plan.per_day
  const refused = minuteSpent || daySpent
  if (!refused) { used.minuteCount += 1; used.dayCount += 1 }

  const minuteLeft = plan.per_minute - used.minuteCount
  const dayLeft = plan.per_day - used.dayCount
  const minuteReset = (minute + 1) * 60
  const dayReset = (day + 1) * 86_400
  const byDay = dayLeft <= minuteLeft
  reply.header('X-RateLimit-Limit', byDay ? plan.per_day : plan.per_minute)
  reply.header('X-RateLimit-Remaining', byDay ? dayLeft : minuteLeft)
  reply.header('X-RateLimit-Reset', byDay ? dayReset : minuteReset)
  if (refused) {
    reply.header('Retry-After', Math.max(1, Math.ceil((daySpent ? dayReset : minuteReset) - now / 1000)))
    throw new ApiError(429, 'RATE_LIMITED', 'Too many requests.')
  }
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

function toBody (row) {
  row.price /= 10_000
  row.in_stock = row.stock_quantity > 0
  row.created_at = new Date(row.created_at).toISOString()
  row.updated_at = new Date(row.updated_at).toISOString()
  return row
}

function toFullBody (row) {
  row.images = row.images === '[]' ? [] : JSON.parse(row.images)
  row.metadata = row.metadata === '{}' ? {} : JSON.parse(row.metadata)
  return toBody(row)
}

const ID = /^[1-9][0-9]{0,15}$/

function findProduct (id) {
  const row = ID.test(id) ? sql.product.get(Number(id)) : undefined
  if (row === undefined) throw new ApiError(404, 'RESOURCE_NOT_FOUND', `There is no product ${id}.`)
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

const app = Fastify({
  logger: false,
  genReqId: () => crypto.randomUUID(),
  requestIdHeader: false,
  bodyLimit: 1024 * 1024,
  ajv: { customOptions: { removeAdditional: false, allErrors: true } },
  ...(certificate && {
    https: { cert: fs.readFileSync(certificate), key: fs.readFileSync(key), minVersion: 'TLSv1.2', maxVersion: 'TLSv1.3' }
  })
})

app.addHook('onRequest', (request, reply, done) => {
  const now = Date.now()
  reply.header('X-Request-Id', request.id)
  const caller = findCaller(request.headers.authorization, now)
  try {
    if (caller === undefined) {
      takeOne(request.ip, FREE, now, reply)
      reply.header('WWW-Authenticate', 'Bearer')
      throw new ApiError(401, 'AUTHENTICATION_REQUIRED', 'A valid API key is required.')
    }
    takeOne(caller.account_id, caller, now, reply)
    const { scope } = request.routeOptions.config
    if (scope !== undefined && !caller.scopes.has(scope)) {
      throw new ApiError(403, 'PERMISSION_DENIED', `This needs the scope ${scope}.`)
    }
  } catch (error) {
    return done(error)
  }
  done()
})

app.addHook('onSend', (request, reply, payload, done) => {
  if (request.method !== 'GET' || reply.statusCode !== 200) return done(null, payload)
  const etag = `"${crypto.hash('sha1', payload, 'base64url')}"`
  reply.header('ETag', etag)
  if (request.headers['if-none-match'] === etag) {
    reply.code(304)
    return done(null, '')
  }
  done(null, payload)
})

app.setErrorHandler((error, request, reply) => {
  const details = error.details ?? (error.validation ?? []).map(({ instancePath, params, message }) => ({
    field: (instancePath.slice(1) || params.missingProperty || params.additionalProperty || '').replaceAll('/', '.'),
    message
  }))
  const status = error.statusCode ?? 500
  const code = error instanceof ApiError ? error.code : status < 500 ? 'VALIDATION_ERROR' : 'INTERNAL_ERROR'
  reply.code(status).send({ error: { code, message: status < 500 ? error.message : 'Internal error.', details } })
})

app.setNotFoundHandler(() => {
  throw new ApiError(404, 'RESOURCE_NOT_FOUND', 'There is nothing at this address.')
})

app.get('/v1/products/:id', { schema: schemas.getProduct, config: { scope: 'read:products' } }, (request, reply) => {
  reply.send({ data: findProduct(request.params.id) })
})

app.get('/v1/products', { schema: schemas.listProducts, config: { scope: 'read:products' } }, (request, reply) => {
  const { page, limit, status } = request.query
  const total = totalOf(status)
  const data = sql.list.all(status, limit, (page - 1) * limit)
  data.forEach(toBody)
  reply.send({
    data,
    pagination: { page, limit, total_items: total, total_pages: Math.ceil(total / limit) }
  })
})

app.post('/v1/products', { schema: schemas.createProduct, config: { scope: 'write:products' } }, (request, reply) => {
  const product = createProduct(request.body)
  reply.code(201).header('Location', `/v1/products/${product.id}`)
  reply.send({ data: product, message: 'Product created.' })
})

process.on('SIGTERM', () => app.close().then(() => db.close()))

app.listen({ host: '127.0.0.1', port: Number(port) })
