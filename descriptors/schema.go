package descriptors

import _ "embed"

// SchemaURL is where editors find [Schema].
const SchemaURL = "https://raw.githubusercontent.com/weirproxy/weir/main/descriptors/schema.json"

// Schema is the JSON Schema (draft-07) of descriptor files, for editors and for the values of a Helm chart. What the parser
// refuses and a schema can say, it refuses too. It is stricter in what the parser ignores, such as a key in the wrong
// place, and in spellings: a flag is true or false, a number is written in digits. It counts characters where the parser
// counts bytes. patternErrorMessage is what an editor says in place of a pattern.
//
//go:embed schema.json
var Schema string
