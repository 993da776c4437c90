// Validate an AsyncAPI document: print each error, and end with status 1 if there is any.
import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";
import { AvroSchemaParser } from "@asyncapi/avro-schema-parser";

const parser = new Parser();
parser.registerSchemaParser(AvroSchemaParser());
const { document, diagnostics } = await parser.parse(readFileSync(process.argv[2], "utf-8"));
const errors = diagnostics.filter((one) => one.severity === 0);
for (const one of errors) console.error(`${one.path.join(".")}: ${one.message}`);
if (document !== undefined) for (const channel of document.channels()) console.log(channel.address());
process.exit(document === undefined || errors.length > 0 ? 1 : 0);
