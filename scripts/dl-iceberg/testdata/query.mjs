// query.mjs: run one SQL statement in DuckDB, and print its rows as JSON.
// With --iceberg TABLE-DIR METADATA the relation `iceberg` is the table, found
// by walking from its metadata to the data files: never by looking which files
// are there.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
const require = createRequire(process.env.DUCKDB_TOOLS + '/')
const { DuckDBInstance } = require('@duckdb/node-api')
const avro = require('avsc')

const long = avro.types.LongType.__with({
  fromBuffer: (b) => b.readBigInt64LE(), toBuffer: (n) => { const b = Buffer.alloc(8); b.writeBigInt64LE(n); return b },
  fromJSON: BigInt, toJSON: Number, isValid: (n) => typeof n === 'bigint', compare: (a, b) => (a < b ? -1 : a > b ? 1 : 0),
})

// rows reads an Avro file.
function rows (url) {
  return new Promise((resolve, reject) => {
    const out = []
    avro.createFileDecoder(fileURLToPath(url), { parseHook: (s) => avro.Type.forSchema(s, { registry: { long } }) })
      .on('data', (row) => out.push(row)).on('end', () => resolve(out)).on('error', reject)
  })
}

async function dataFiles (metadata) {
  const text = readFileSync(metadata, 'utf8').replace(/("(?:current-)?snapshot-id"\s*:\s*)(-?\d+)/g, '$1"$2"')
  const table = JSON.parse(text)
  const snapshot = table.snapshots.find((s) => s['snapshot-id'] === table['current-snapshot-id'])
  const files = []
  for (const manifest of await rows(snapshot['manifest-list'])) {
    for (const entry of await rows(manifest.manifest_path)) {
      if (entry.status !== 2) files.push(fileURLToPath(entry.data_file.file_path))
    }
  }
  return files
}

const args = process.argv.slice(2)
const db = await DuckDBInstance.create(':memory:', { autoinstall_known_extensions: 'false', autoload_known_extensions: 'false' })
const connection = await db.connect()
await connection.run("set timezone = 'UTC'")
if (args[0] === '--iceberg') {
  const files = await dataFiles(args[1])
  const list = files.map((f) => "'" + f.replaceAll("'", "''") + "'").join(', ')
  await connection.run(`create view iceberg as select * from read_parquet([${list}])`)
  args.splice(0, 2)
}
const reader = await connection.runAndReadAll(args[0])
for (const row of reader.getRowsJson()) console.log(JSON.stringify(row))
