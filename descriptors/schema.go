package descriptors

import _ "embed"

// SchemaURL is the URL of [Schema] for editors.
const SchemaURL = "https://raw.githubusercontent.com/weirproxy/weir/main/descriptors/schema.json"

// Schema is the JSON Schema (draft-07) of descriptor files, for editors and for the values of a Helm chart. It rejects
// the files that the parser rejects, as far as a schema can. It also rejects keys that the parser ignores, such as
// misplaced ones, and other spellings: flags must be true or false, numbers written in digits. It counts characters
// where the parser counts bytes. Editors show patternErrorMessage instead of a pattern.
//
//go:embed schema.json
var Schema string
